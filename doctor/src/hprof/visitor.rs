//! What a walk shows: one method per record kind. Each does nothing by default.

/// The type of a field or of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FieldType {
    /// A reference.
    Object = 2,
    /// One byte.
    Boolean = 4,
    /// Two bytes.
    Char = 5,
    /// Four bytes.
    Float = 6,
    /// Eight bytes.
    Double = 7,
    /// One byte.
    Byte = 8,
    /// Two bytes.
    Short = 9,
    /// Four bytes.
    Int = 10,
    /// Eight bytes.
    Long = 11,
}

impl FieldType {
    /// The type with this number in a dump.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            2 => Self::Object,
            4 => Self::Boolean,
            5 => Self::Char,
            6 => Self::Float,
            7 => Self::Double,
            8 => Self::Byte,
            9 => Self::Short,
            10 => Self::Int,
            11 => Self::Long,
            _ => return None,
        })
    }

    /// Bytes of a value.
    pub fn size_bytes(self, id_bytes: usize) -> usize {
        match self {
            Self::Object => id_bytes,
            Self::Boolean | Self::Byte => 1,
            Self::Char | Self::Short => 2,
            Self::Float | Self::Int => 4,
            Self::Double | Self::Long => 8,
        }
    }
}

/// A big-endian number of up to 8 bytes; longer input counts with its last 8.
#[inline(always)]
pub(crate) fn number(bytes: &[u8]) -> u64 {
    if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        u64::from_be_bytes(eight)
    } else if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        u64::from(u32::from_be_bytes(four))
    } else {
        bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}

/// A class as dumped. Its tables were checked: they are complete and their types are known.
#[derive(Debug, Clone, Copy)]
pub struct ClassDump<'a> {
    /// The class.
    pub id: u64,
    /// Its superclass, 0 for none.
    pub super_id: u64,
    /// Sum of the sizes of all instance fields, inherited ones too.
    pub instance_bytes: u32,
    pub(crate) id_bytes: usize,
    pub(crate) statics: &'a [u8],
    pub(crate) fields: &'a [u8],
}

impl<'a> ClassDump<'a> {
    /// Static fields.
    pub fn statics(&self) -> Statics<'a> {
        Statics { rest: self.statics, id_bytes: self.id_bytes }
    }

    /// The class's own instance fields, in the order in which an instance has them.
    pub fn fields(&self) -> Fields<'a> {
        Fields { rest: self.fields, id_bytes: self.id_bytes }
    }
}

/// Static fields: name, type, value.
#[derive(Debug, Clone)]
pub struct Statics<'a> {
    rest: &'a [u8],
    id_bytes: usize,
}

impl Iterator for Statics<'_> {
    type Item = (u64, FieldType, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.rest.split_at_checked(self.id_bytes)?;
        let (kind, rest) = rest.split_first()?;
        let kind = FieldType::from_number(*kind)?;
        let (value, rest) = rest.split_at_checked(kind.size_bytes(self.id_bytes))?;
        self.rest = rest;
        Some((number(name), kind, number(value)))
    }
}

/// Instance fields: name, type.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
    id_bytes: usize,
}

impl Iterator for Fields<'_> {
    type Item = (u64, FieldType);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.rest.split_at_checked(self.id_bytes)?;
        let (kind, rest) = rest.split_first()?;
        self.rest = rest;
        Some((number(name), FieldType::from_number(*kind)?))
    }
}

/// Why the collector keeps an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// A kind that the dump does not name.
    Unknown,
    /// A global reference of native code.
    JniGlobal,
    /// A local reference of native code.
    JniLocal {
        /// Serial of the thread.
        thread: u32,
        /// Frame, 0 = top, -1 = none.
        frame: i32,
    },
    /// A local variable.
    JavaFrame {
        /// Serial of the thread.
        thread: u32,
        /// Frame, 0 = top, -1 = none.
        frame: i32,
    },
    /// Held by a native frame.
    NativeStack {
        /// Serial of the thread.
        thread: u32,
    },
    /// A class of the system.
    StickyClass,
    /// Held by a thread's block.
    ThreadBlock {
        /// Serial of the thread.
        thread: u32,
    },
    /// A monitor in use.
    Monitor,
    /// A live thread.
    Thread {
        /// Its serial.
        thread: u32,
        /// Serial of its stack trace.
        trace: u32,
    },
}

/// What a visitor wants of an array's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Pass over it.
    Skip,
    /// Show it, piece by piece.
    Show,
}

/// Sees the records of a dump in the order of the file. Places (`at`) are offsets of the dump.
pub trait Visitor {
    /// Whether dump records are walked; if not, only what stands between them is shown.
    const HEAP: bool = true;

    /// A symbol, in modified UTF-8.
    fn utf8(&mut self, id: u64, bytes: &[u8]) {
        let _ = (id, bytes);
    }

    /// A class and the symbol of its name.
    fn load_class(&mut self, serial: u32, class: u64, name: u64) {
        let _ = (serial, class, name);
    }

    /// A stack frame: the symbol of the method and the serial of its class.
    fn frame(&mut self, frame: u64, method: u64, class_serial: u32) {
        let _ = (frame, method, class_serial);
    }

    /// A stack trace. `frames` are ids one after the other, the top one first.
    fn trace(&mut self, serial: u32, thread: u32, frames: &[u8]) {
        let _ = (serial, thread, frames);
    }

    /// A root.
    fn root(&mut self, at: u64, id: u64, root: Root) {
        let _ = (at, id, root);
    }

    /// A class.
    fn class(&mut self, at: u64, class: ClassDump<'_>) {
        let _ = (at, class);
    }

    /// An object and the values of its fields.
    fn instance(&mut self, at: u64, id: u64, class: u64, fields: &[u8]) {
        let _ = (at, id, class, fields);
    }

    /// An array of objects.
    fn object_array(&mut self, at: u64, id: u64, class: u64, count: u32) -> Reading {
        let _ = (at, id, class, count);
        Reading::Skip
    }

    /// A piece of the array that was shown last: ids one after the other, the first of them element `first`.
    fn elements(&mut self, first: u64, ids: &[u8]) {
        let _ = (first, ids);
    }

    /// An array of primitive values.
    fn primitive_array(&mut self, at: u64, id: u64, kind: FieldType, count: u32) -> Reading {
        let _ = (at, id, kind, count);
        Reading::Skip
    }

    /// A piece of the array that was shown last.
    fn primitives(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// A place at which a later walk can begin; now and then.
    fn boundary(&mut self, place: super::Place) {
        let _ = place;
    }

    /// Asked at every boundary and before every record: whether the walk ends here.
    fn is_done(&self) -> bool {
        false
    }
}
