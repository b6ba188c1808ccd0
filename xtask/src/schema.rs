//! The schema language of `protocol/schema/` (described there in README.md): text to model. Errors name file and line.

use std::collections::HashMap;

/// An inclusive range of versions; empty if `lo > hi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// First version.
    pub lo: i16,
    /// Last version, `i16::MAX` if open.
    pub hi: i16,
}

impl Versions {
    /// Every version.
    pub const ALL: Self = Self { lo: 0, hi: i16::MAX };
    /// No version.
    pub const NONE: Self = Self { lo: 1, hi: 0 };

    fn parse(text: &str) -> Option<Self> {
        let range = if let Some(lo) = text.strip_suffix('+') {
            Self { lo: lo.parse().ok()?, hi: i16::MAX }
        } else if let Some((lo, hi)) = text.split_once('-') {
            Self { lo: lo.parse().ok()?, hi: hi.parse().ok()? }
        } else {
            let only = text.parse().ok()?;
            Self { lo: only, hi: only }
        };
        (range.lo >= 0).then_some(range)
    }

    /// Whether `version` is in the range.
    pub fn contains(self, version: i16) -> bool {
        self.lo <= version && version <= self.hi
    }

    /// Whether all of `other` is in the range.
    pub fn covers(self, other: Self) -> bool {
        other.lo > other.hi || (self.lo <= other.lo && other.hi <= self.hi)
    }

    /// What both have.
    pub fn intersect(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    /// Whether no version is in the range.
    pub fn is_empty(self) -> bool {
        self.lo > self.hi
    }
}

/// The type of a field, or of the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kafka's names")]
pub enum Base {
    Bool,
    Int8,
    Int16,
    Uint16,
    Uint32,
    Int32,
    Int64,
    Float64,
    String,
    Bytes,
    Uuid,
    ErrorCode,
    /// Index into [`Message::structs`].
    Struct(usize),
}

/// One field.
#[derive(Debug, Clone)]
pub struct Field {
    /// In snake case.
    pub name: String,
    /// Its type, or its elements'.
    pub base: Base,
    /// Whether it is a list.
    pub is_list: bool,
    /// Versions that have it.
    pub versions: Versions,
    /// Versions in which it may be null.
    pub nullable: Versions,
    /// Explicit default, as written.
    pub default: Option<String>,
    /// Dropped silently by versions that lack it.
    pub ignorable: bool,
    /// Its number if it is a tagged field.
    pub tag: Option<u32>,
    /// False if it keeps the classic form in flexible versions.
    pub follows_flexible: bool,
}

impl Field {
    /// Whether any version allows null.
    pub fn is_nullable(&self) -> bool {
        !self.nullable.is_empty()
    }
}

/// One struct of a message.
#[derive(Debug, Clone)]
pub struct Struct {
    /// Its name, unique over all files.
    pub name: String,
    /// In wire order; tagged ones anywhere.
    pub fields: Vec<Field>,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "see the schema's README")]
pub enum Kind {
    Request,
    Response,
    Data,
    Record,
    Key,
    Value,
}

/// One message.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Api key or record type.
    pub key: Option<i16>,
    /// Its versions.
    pub valid: Versions,
    /// Flexible versions.
    pub flexible: Versions,
    /// The message itself first, then its nested structs.
    pub structs: Vec<Struct>,
}

impl Message {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.structs[0].name
    }
}

/// What becomes one generated file.
#[derive(Debug, Clone)]
pub struct Room {
    /// The module's name.
    pub module: String,
    /// First line of its documentation.
    pub doc: String,
    /// The name of the enum over its records.
    pub record_enum: Option<String>,
    /// Its messages.
    pub messages: Vec<Message>,
}

/// A mistake in a schema, with file and line.
pub type Mistake = String;

/// Parses one `.schema` file.
pub fn parse(file: &str, text: &str) -> Result<Vec<Room>, Mistake> {
    let doc = text.lines().next().unwrap_or_default().trim_start_matches('#').trim().to_owned();
    let mut rooms: Vec<Room> = Vec::new();
    let mut api = None;
    // (indent of its fields, index of the struct) from the message down to the struct being read.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let fail = |what: &str| format!("{file}:{}: {what}: {line:?}", number + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let indent = line.len() - line.trim_start().len();
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        if indent == 0 {
            match words.as_slice() {
                ["api", key, name] => {
                    let key: i16 = key.parse().map_err(|_| fail("bad api key"))?;
                    api = Some(key);
                    rooms.push(Room {
                        module: format!("k{key:02}_{}", snake(name)),
                        doc: format!("{name}, api key {key}."),
                        record_enum: None,
                        messages: Vec::new(),
                    });
                }
                ["module", name] => rooms.push(Room {
                    module: (*name).to_owned(),
                    doc: doc.clone(),
                    record_enum: None,
                    messages: Vec::new(),
                }),
                ["enum", name] => {
                    rooms.last_mut().ok_or_else(|| fail("no module"))?.record_enum = Some((*name).to_owned());
                }
                _ => {
                    let message = parse_head(&words, api).ok_or_else(|| fail("not a message"))?;
                    rooms.last_mut().ok_or_else(|| fail("no module"))?.messages.push(message);
                    open = vec![(2, 0)];
                }
            }
            continue;
        }
        let message =
            rooms.last_mut().and_then(|r| r.messages.last_mut()).ok_or_else(|| fail("no message"))?;
        while open.last().is_some_and(|(at, _)| *at > indent) {
            open.pop();
        }
        let at = open.last().filter(|(at, _)| *at == indent).ok_or_else(|| fail("bad indent"))?.1;
        let (field, opened) = parse_field(&words, message).map_err(|what| fail(&what))?;
        message.structs[at].fields.push(field);
        if let Some(index) = opened {
            open.push((indent + 2, index));
        }
    }
    for room in &rooms {
        for message in &room.messages {
            for part in &message.structs[1..] {
                if part.fields.is_empty() {
                    return Err(format!("{file}: struct {} has no fields", part.name));
                }
            }
        }
    }
    Ok(rooms)
}

/// Refuses names that occur twice.
pub fn check_names(rooms: &[Room]) -> Result<(), Mistake> {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for room in rooms {
        for part in room.messages.iter().flat_map(|m| &m.structs) {
            if let Some(first) = seen.insert(&part.name, &room.module) {
                return Err(format!("{} is defined in {first} and in {}", part.name, room.module));
            }
        }
    }
    Ok(())
}

fn parse_head(words: &[&str], api: Option<i16>) -> Option<Message> {
    let kind = match words[0] {
        "request" => Kind::Request,
        "response" => Kind::Response,
        "data" => Kind::Data,
        "record" => Kind::Record,
        "key" => Kind::Key,
        "value" => Kind::Value,
        _ => return None,
    };
    let mut rest = &words[1..];
    let key = match kind {
        Kind::Request | Kind::Response => Some(api?),
        Kind::Data => None,
        _ => {
            let key = rest.first()?.parse().ok()?;
            rest = &rest[1..];
            Some(key)
        }
    };
    let (name, valid, flexible) = match rest {
        [name, valid] => (name, valid, Versions::NONE),
        [name, valid, "flexible", from] => (name, valid, Versions::parse(from)?),
        _ => return None,
    };
    let root = Struct { name: (*name).to_owned(), fields: Vec::new() };
    Some(Message { kind, key, valid: Versions::parse(valid)?, flexible, structs: vec![root] })
}

/// Parses a field; the second value is the index of the struct that it introduces.
fn parse_field(words: &[&str], message: &mut Message) -> Result<(Field, Option<usize>), String> {
    let [name, kind, rest @ ..] = words else { return Err("a field needs a name and a type".into()) };
    let (is_list, base_name) = match kind.strip_prefix("[]") {
        Some(element) => (true, element),
        None => (false, *kind),
    };
    let mut opened = None;
    let base = match base_name {
        "bool" => Base::Bool,
        "int8" => Base::Int8,
        "int16" => Base::Int16,
        "uint16" => Base::Uint16,
        "uint32" => Base::Uint32,
        "int32" => Base::Int32,
        "int64" => Base::Int64,
        "float64" => Base::Float64,
        "string" => Base::String,
        "bytes" | "records" => Base::Bytes,
        "uuid" => Base::Uuid,
        "error_code" => Base::ErrorCode,
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            let known = message.structs.iter().position(|s| s.name == name);
            Base::Struct(known.unwrap_or_else(|| {
                message.structs.push(Struct { name: name.to_owned(), fields: Vec::new() });
                opened = Some(message.structs.len() - 1);
                message.structs.len() - 1
            }))
        }
        _ => return Err(format!("unknown type {base_name}")),
    };
    let mut field = Field {
        name: (*name).to_owned(),
        base,
        is_list,
        versions: Versions::ALL,
        nullable: Versions::NONE,
        default: None,
        ignorable: false,
        tag: None,
        follows_flexible: true,
    };
    for word in rest {
        if let Some(versions) = Versions::parse(word) {
            field.versions = versions;
        } else if *word == "null" {
            field.nullable = Versions::ALL;
        } else if let Some(versions) = word.strip_prefix("null:").and_then(Versions::parse) {
            field.nullable = versions;
        } else if let Some(value) = word.strip_prefix('=') {
            field.default = Some(value.to_owned());
        } else if *word == "ignorable" {
            field.ignorable = true;
        } else if let Some(tag) = word.strip_prefix("tag:").and_then(|t| t.parse().ok()) {
            field.tag = Some(tag);
        } else if *word == "flexible:none" {
            field.follows_flexible = false;
        } else {
            return Err(format!("unknown attribute {word}"));
        }
    }
    let present = field.versions.intersect(message.valid);
    if present.is_empty() {
        return Err("in no version".into());
    }
    if field.tag.is_some() && !message.flexible.covers(present) {
        return Err("tagged in a version that is not flexible".into());
    }
    if matches!(base, Base::Struct(_)) && !is_list && field.is_nullable() && !field.nullable.covers(present) {
        return Err("a nullable struct is nullable in all of its versions".into());
    }
    Ok((field, opened))
}

/// `ListOffsets` to `list_offsets`.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
