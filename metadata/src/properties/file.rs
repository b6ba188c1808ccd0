//! Properties as they are written: a Java `.properties` file and `name=value` overrides. The last one wins, as in Java.

use std::collections::BTreeMap;

use java_properties::{LineContent, PropertiesIter};

use crate::MetadataError;

/// Properties that say the same as another of the embedded settings, under an older name.
const OLDER_NAMES: [(&str, &str); 2] = [("log.dir", "log.dirs"), ("broker.id", "node.id")];

/// Where a setting was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file, from 1.
    File(usize),
    /// The command line.
    Override,
    /// weir's embedded defaults for a start without a file.
    Embedded,
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value as it was written.
    pub value: String,
    /// Where.
    pub origin: Origin,
}

/// Settings by name, and the names that a file gave more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertySet {
    settings: BTreeMap<String, Setting>,
    repeated: Vec<(String, usize)>,
}

impl PropertySet {
    /// No settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings of a start without a file: one node on the loopback address, data in `./weir-data`.
    pub fn embedded() -> Self {
        let mut set = Self::new();
        for (name, value) in [
            ("node.id", "1"),
            ("process.roles", "broker,controller"),
            ("listeners", "PLAINTEXT://127.0.0.1:9092"),
            ("log.dirs", "./weir-data"),
            ("auto.create.topics.enable", "true"),
            ("num.partitions", "1"),
            ("offsets.topic.replication.factor", "1"),
        ] {
            set.insert(name, value, Origin::Embedded);
        }
        set
    }

    /// Reads the bytes of a `.properties` file (ISO 8859-1, `\uXXXX` for the rest, as Java reads them).
    ///
    /// # Errors
    /// [`MetadataError::MalformedFile`] with the line.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let mut set = Self::new();
        for line in PropertiesIter::new(bytes) {
            let line = line.map_err(|error| MetadataError::MalformedFile {
                line: error.line_number().unwrap_or(0),
                reason: error.to_string(),
            })?;
            let number = line.line_number();
            if let LineContent::KVPair(name, value) = line.consume_content() {
                if set.settings.contains_key(&name) {
                    set.repeated.push((name.clone(), number));
                }
                set.insert(&name, &value, Origin::File(number));
            }
        }
        Ok(set)
    }

    /// Takes `name=value` from the command line; it wins over the file. An older name of a property wins over the embedded
    /// default of the newer one, which nobody wrote.
    ///
    /// # Errors
    /// [`MetadataError::MalformedOverride`] without a name or an equals sign.
    pub fn set_override(&mut self, text: &str) -> Result<(), MetadataError> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                let name = name.trim();
                if let Some((_, newer)) = OLDER_NAMES.iter().find(|(older, _)| *older == name)
                    && self.get(newer).is_some_and(|setting| setting.origin == Origin::Embedded)
                {
                    self.settings.remove(*newer);
                }
                self.insert(name, value, Origin::Override);
                Ok(())
            }
            _ => Err(MetadataError::MalformedOverride(text.to_owned())),
        }
    }

    /// Sets `name`.
    pub fn insert(&mut self, name: &str, value: &str, origin: Origin) {
        self.settings.insert(name.to_owned(), Setting { value: value.to_owned(), origin });
    }

    /// The setting of `name`.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// All settings in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(name, setting)| (name.as_str(), setting))
    }

    /// Names that the file gives more than once, with the line of each repetition.
    pub fn repeated(&self) -> &[(String, usize)] {
        &self.repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_java_reads_them() {
        let text = b"# comment\n! another\nlisteners = PLAINTEXT://:9092,\\\n   CONTROLLER://:9093\nnode.id:7\nbroker.rack r\\u00e9\nempty\nnum.partitions=1\nnum.partitions=3\n";
        let set = PropertySet::parse(text).unwrap();
        assert_eq!(set.get("listeners").unwrap().value, "PLAINTEXT://:9092,CONTROLLER://:9093");
        assert_eq!(set.get("node.id").unwrap().value, "7");
        assert_eq!(set.get("broker.rack").unwrap().value, "r\u{e9}");
        assert_eq!(set.get("empty").unwrap().value, "");
        assert_eq!(set.get("num.partitions").unwrap().value, "3");
        assert_eq!(set.repeated(), [("num.partitions".to_owned(), 9)]);
    }

    #[test]
    fn overrides_win_and_must_name_something() {
        let mut set = PropertySet::parse(b"num.partitions=1").unwrap();
        set.set_override("num.partitions=5").unwrap();
        set.set_override("broker.rack=a=b").unwrap();
        assert_eq!(set.get("num.partitions").unwrap().value, "5");
        assert_eq!(set.get("broker.rack").unwrap().value, "a=b");
        assert!(set.set_override("no-equals-sign").is_err());
        assert!(set.set_override("=5").is_err());
    }

    #[test]
    fn an_older_name_wins_over_an_embedded_default_and_over_nothing_else() {
        let mut set = PropertySet::embedded();
        set.set_override("log.dir=/mine").unwrap();
        set.set_override("broker.id=7").unwrap();
        assert_eq!((set.get("log.dirs"), set.get("node.id")), (None, None));
        let mut set = PropertySet::parse(b"log.dirs=/theirs").unwrap();
        set.set_override("log.dir=/mine").unwrap();
        assert_eq!(set.get("log.dirs").unwrap().value, "/theirs");
    }

    #[test]
    fn a_broken_escape_names_its_line() {
        let error = PropertySet::parse(b"a=1\nb=\\u12").unwrap_err();
        assert!(error.to_string().starts_with("properties file, line 2"), "{error}");
    }
}
