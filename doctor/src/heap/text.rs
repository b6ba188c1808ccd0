//! Texts of Java objects, put together from what the passes found: `String` of every JDK, `File`, `Path`, char arrays.

use std::collections::{HashMap, HashSet};

use crate::hprof::FieldType;

use super::classes::{Classes, Kind};
use super::search::Found;
use super::symbols::printable;

/// What is known of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Known(String),
    /// This object must be found first.
    Ask(u64),
    /// The dump does not have it.
    Missing,
}

/// Objects that were found, and those that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) found: HashMap<u64, Found>,
    pub(crate) asked: HashSet<u64>,
}

impl Texts {
    fn ask(&self, id: u64) -> Answer {
        if id == 0 || self.asked.contains(&id) { Answer::Missing } else { Answer::Ask(id) }
    }

    /// What kind of object was found under this id.
    pub(crate) fn kind(&self, classes: &Classes, id: u64) -> Option<Kind> {
        match self.found.get(&id)? {
            Found::Object(class, _) => {
                classes.layout(classes.list.get(*class)?.id).map(|(_, layout)| layout.kind)
            }
            Found::Array(..) => Some(Kind::Other),
        }
    }

    /// The text of the object with this id.
    pub(crate) fn text(&self, classes: &Classes, id: u64) -> Answer {
        self.text_within(classes, id, 3)
    }

    fn text_within(&self, classes: &Classes, id: u64, depth: u32) -> Answer {
        let Some(found) = self.found.get(&id) else { return self.ask(id) };
        let (class, fields) = match found {
            Found::Array(kind, bytes) => return Answer::Known(decode(*kind, bytes, None)),
            Found::Object(class, fields) => (*class, fields),
        };
        if depth == 0 {
            return Answer::Missing;
        }
        let value = |declared_by: &str, name: &str| classes.value(class, fields, declared_by, name);
        match self.kind(classes, id) {
            Some(Kind::String) => {
                let Some(array) = value("java/lang/String", "value") else { return Answer::Missing };
                let array = array.cast_unsigned();
                let Some(Found::Array(kind, bytes)) = self.found.get(&array) else { return self.ask(array) };
                let part = (value("java/lang/String", "offset"), value("java/lang/String", "count"));
                // JDK 6 and before shared one array among strings.
                let bytes = match part {
                    (Some(offset), Some(count)) => {
                        let chars = |number: i64| usize::try_from(number).unwrap_or(0).saturating_mul(2);
                        let rest = bytes.get(chars(offset)..).unwrap_or_default();
                        rest.get(..chars(count)).unwrap_or(rest)
                    }
                    _ => bytes,
                };
                Answer::Known(decode(*kind, bytes, value("java/lang/String", "coder")))
            }
            Some(Kind::File) => match value("java/io/File", "path") {
                Some(path) => self.text_within(classes, path.cast_unsigned(), depth - 1),
                None => Answer::Missing,
            },
            Some(Kind::Path) => match value("sun/nio/fs/UnixPath", "path") {
                Some(path) => match self.found.get(&path.cast_unsigned()) {
                    Some(Found::Array(_, bytes)) => Answer::Known(printable(&String::from_utf8_lossy(bytes))),
                    _ => self.ask(path.cast_unsigned()),
                },
                None => Answer::Missing,
            },
            _ => Answer::Missing,
        }
    }
}

/// `coder` is that of a compact string: 0 Latin-1, 1 UTF-16 in the byte order of the host.
fn decode(kind: FieldType, bytes: &[u8], coder: Option<i64>) -> String {
    let pairs = |little: bool| -> Vec<u16> {
        let pair = |two: &[u8]| {
            let two: [u8; 2] = two.try_into().unwrap_or_default();
            if little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) }
        };
        bytes.chunks_exact(2).map(pair).collect()
    };
    let text = match (kind, coder) {
        // The values of a char array are numbers, which a dump has in big-endian order.
        (FieldType::Char, _) => String::from_utf16_lossy(&pairs(false)),
        (_, Some(1)) => String::from_utf16_lossy(&pairs(true)),
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    printable(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_jdk_are_decoded_and_cannot_command_a_terminal() {
        assert_eq!(decode(FieldType::Char, &[0, b'a', 0x4e, 0x2d], None), "a中");
        assert_eq!(decode(FieldType::Byte, &[b'a', 0xe9], Some(0)), "aé");
        assert_eq!(decode(FieldType::Byte, &[b'a', 0, 0x2d, 0x4e], Some(1)), "a中");
        assert_eq!(decode(FieldType::Byte, b"\x1b[2J", Some(0)), "\u{fffd}[2J");
        assert_eq!(decode(FieldType::Char, &[0xd8, 0, 0], None), "\u{fffd}");
    }
}
