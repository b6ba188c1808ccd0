//! Kafka's compression codecs by id and name, and what reading them may cost.

use std::fmt;
use std::str::FromStr;

use super::BatchError;

/// A codec of the attributes' bits 0-2; Kafka calls it compression type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Records lie in the body as they are.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy, raw or in the blocks of the xerial framing.
    Snappy,
    /// LZ4 frames with independent blocks.
    Lz4,
    /// Zstandard (KIP-110).
    Zstd,
}

impl Codec {
    /// All codecs, by id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The id in a batch's attributes.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of an id.
    ///
    /// # Errors
    /// [`BatchError::UnknownCompression`] above 4.
    pub fn from_id(id: u8) -> Result<Self, BatchError> {
        Self::ALL.get(usize::from(id)).copied().ok_or(BatchError::UnknownCompression { id })
    }

    /// Kafka's name for it, as in `compression.type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = UnknownCodecName;

    /// Parses Kafka's names; `uncompressed` (a value of `compression.type`) is [`Codec::None`].
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "uncompressed" {
            return Ok(Self::None);
        }
        Self::ALL
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| UnknownCodecName(name.to_owned()))
    }
}

/// A name that is no codec of Kafka.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no compression codec, known are none, gzip, snappy, lz4 and zstd")]
pub struct UnknownCodecName(pub String);

/// A codec with its level, for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// gzip: 0-9; zstd: -131072..=22 (the search is cut to bounded memory); ignored by the others. `None`: the codec's
    /// default (gzip 6, zstd 3).
    pub level: Option<i32>,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        Self { codec, level: None }
    }
}

/// What reading a compressed batch may cost. The defaults read what any client writes with default settings, zstd up
/// to level 19.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InflateLimits {
    /// Inflated bytes of one batch. They are streamed, so this bounds time, not memory.
    pub max_inflated_bytes: u64,
    /// Largest zstd window, as the exponent of a power of two, 10 to 27. The window is the memory that a zstd batch
    /// needs: 8 MiB at 23. Levels up to 9 need 21 or 22, 19 needs 23, 22 needs 27.
    pub max_zstd_window_log: u32,
    /// How far back a snappy copy may reach. Blocks up to this size are held as a whole, larger ones need half as
    /// much again. No encoder we know of reaches back more than 4 MiB.
    pub max_snappy_history_bytes: usize,
}

impl Default for InflateLimits {
    /// 256 MiB inflated, 8 MiB of zstd window, 4 MiB of snappy history.
    fn default() -> Self {
        Self { max_inflated_bytes: 256 << 20, max_zstd_window_log: 23, max_snappy_history_bytes: 4 << 20 }
    }
}
