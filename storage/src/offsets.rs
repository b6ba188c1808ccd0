//! The kinds of offsets of a log. They are all `i64` on the wire; here a type keeps them from being mixed up.
//!
//! `log start <= last stable <= high watermark <= log end`, and `recovery point <= log end`.

use std::fmt;

macro_rules! offset_kind {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub i64);

        impl $name {
            /// The offset as it goes over the wire.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

offset_kind!(
    /// The first offset that can be read.
    LogStartOffset
);
offset_kind!(
    /// The offset that the next record will get.
    LogEndOffset
);
offset_kind!(
    /// The first offset that is not yet on all in-sync replicas. With a single replica: the log end offset.
    HighWatermark
);
offset_kind!(
    /// The first offset that belongs to an open transaction, at most the high watermark.
    LastStableOffset
);
offset_kind!(
    /// Everything below it has been synced to the disk and needs no check after a crash.
    RecoveryPoint
);
