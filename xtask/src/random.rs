//! Random messages straight from the schema: valid, canonical bytes, made by a second implementation of the wire
//! format that shares nothing with the generated code. The tests of the protocol crate hold both against each other
//! and against Kafka's own classes.

use crate::schema::{Base, Field, Message};

/// A small seeded generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n.max(1)
    }
}

/// The bytes of a random message at `version`, as Kafka would write them.
pub fn message(message: &Message, version: i16, rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    Filler { message, version, rng }.fields(0, 0, &mut out);
    out
}

struct Filler<'m> {
    message: &'m Message,
    version: i16,
    rng: &'m mut Rng,
}

fn uvarint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Filler<'_> {
    fn fields(&mut self, index: usize, depth: usize, out: &mut Vec<u8>) {
        let fields = &self.message.structs[index].fields;
        let (version, flexible) = (self.version, self.message.flexible.contains(self.version));
        for field in fields.iter().filter(|f| f.tag.is_none() && f.versions.contains(version)) {
            self.value(field, flexible && field.follows_flexible, depth, out);
        }
        if !flexible {
            return;
        }
        let mut tags: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in fields.iter().filter(|f| f.versions.contains(version)) {
            // Kafka does not write a tagged field with its default value, so such bytes would not come back equal.
            if let Some(tag) = field.tag.filter(|_| self.rng.below(2) == 0) {
                let mut value = Vec::new();
                if self.tagged(field, depth, &mut value) {
                    tags.push((tag, value));
                }
            }
        }
        if self.rng.below(8) == 0 {
            let bytes = (0..self.rng.below(5)).map(|i| i as u8).collect();
            tags.push((100 + self.rng.below(1000) as u32, bytes));
        }
        tags.sort_by_key(|(tag, _)| *tag);
        uvarint(tags.len() as u64, out);
        for (tag, value) in tags {
            uvarint(u64::from(tag), out);
            uvarint(value.len() as u64, out);
            out.extend(value);
        }
    }

    /// Writes a value that differs from the default; false if none was found.
    fn tagged(&mut self, field: &Field, depth: usize, out: &mut Vec<u8>) -> bool {
        match field.default.as_deref() {
            Some(default) if default != "null" => {
                let value: i64 = match (default, field.base) {
                    ("true", _) => 0,
                    ("false", _) => 1,
                    (number, _) => number.parse::<i64>().unwrap_or_default() ^ 5,
                };
                self.number(field.base, value as u64, out);
                true
            }
            _ => {
                if matches!(field.base, Base::Struct(_))
                    && !field.is_list
                    && field.is_nullable()
                    && self.rng.below(3) == 0
                {
                    // A null whose default is a value; inside a tag the marker is a uvarint.
                    out.push(0);
                    return field.default.is_none();
                }
                // Non-null and non-empty, and a number that is not 0, differ from every default without a value;
                // a struct differs as soon as one of its numbers does, which the low bit of `number` sees to.
                self.some(field, true, depth, true, out);
                match field.base {
                    Base::Struct(index) if !field.is_list => {
                        self.message.structs[index].fields.iter().any(|f| {
                            f.tag.is_none()
                                && !f.is_list
                                && !matches!(
                                    f.base,
                                    Base::Bool | Base::String | Base::Bytes | Base::Struct(_)
                                )
                        })
                    }
                    _ => true,
                }
            }
        }
    }

    fn value(&mut self, field: &Field, flexible: bool, depth: usize, out: &mut Vec<u8>) {
        if field.nullable.contains(self.version) && self.rng.below(3) == 0 {
            match (field.is_list, field.base) {
                (false, Base::Struct(_)) => out.push(0xff),
                _ if flexible => out.push(0),
                (false, Base::String) => out.extend([0xff; 2]),
                _ => out.extend([0xff; 4]),
            }
        } else {
            self.some(field, flexible, depth, false, out);
        }
    }

    fn some(&mut self, field: &Field, flexible: bool, depth: usize, full: bool, out: &mut Vec<u8>) {
        if !field.is_list {
            if matches!(field.base, Base::Struct(_)) && field.is_nullable() {
                out.push(1);
            }
            return self.one(field.base, flexible, depth, full, out);
        }
        let most = if depth > 2 { 2 } else { 4 };
        let count = self.rng.below(most) + u64::from(full);
        if flexible {
            uvarint(count + 1, out);
        } else {
            out.extend((count as i32).to_be_bytes());
        }
        for _ in 0..count {
            self.one(field.base, flexible, depth + 1, false, out);
        }
    }

    fn one(&mut self, base: Base, flexible: bool, depth: usize, full: bool, out: &mut Vec<u8>) {
        match base {
            Base::Struct(index) => self.fields(index, depth, out),
            Base::String => {
                let alphabet: Vec<char> = "abcXYZ019.-_ äß€😀".chars().collect();
                // Now and then longer than 127 bytes, so that compact lengths take two.
                let length = if self.rng.below(20) == 0 { 140 } else { self.rng.below(9) };
                let text: String = (0..length + u64::from(full))
                    .map(|_| alphabet[self.rng.below(alphabet.len() as u64) as usize])
                    .collect();
                if flexible {
                    uvarint(text.len() as u64 + 1, out);
                } else {
                    out.extend((text.len() as i16).to_be_bytes());
                }
                out.extend(text.as_bytes());
            }
            Base::Bytes => {
                let bytes: Vec<u8> =
                    (0..self.rng.below(20) + u64::from(full)).map(|_| self.rng.next_u64() as u8).collect();
                if flexible {
                    uvarint(bytes.len() as u64 + 1, out);
                } else {
                    out.extend((bytes.len() as i32).to_be_bytes());
                }
                out.extend(bytes);
            }
            Base::Uuid => {
                out.extend((self.rng.next_u64() | 1).to_be_bytes());
                out.extend(self.rng.next_u64().to_be_bytes());
            }
            Base::Bool => out.push(if full { 1 } else { self.rng.below(2) as u8 }),
            base => {
                let small = self.rng.below(2) == 0;
                let value = self.rng.next_u64() | 1;
                self.number(base, if small { value & 0x7f } else { value }, out);
            }
        }
    }

    fn number(&mut self, base: Base, value: u64, out: &mut Vec<u8>) {
        match base {
            Base::Bool => out.push(u8::from(value & 1 == 1)),
            Base::Int8 => out.push(value as u8),
            Base::Int16 | Base::Uint16 | Base::ErrorCode => out.extend((value as u16).to_be_bytes()),
            Base::Uint32 | Base::Int32 => out.extend((value as u32).to_be_bytes()),
            // A finite number: not every NaN survives a Java double.
            Base::Float64 => out.extend(f64::from(value as u32).to_be_bytes()),
            _ => out.extend(value.to_be_bytes()),
        }
    }
}
