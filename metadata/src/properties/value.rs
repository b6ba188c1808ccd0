//! Values of properties: their types, ranges, and parsing as Kafka parses them, plus sizes such as `64MiB`.
//!
//! Input is untrusted: it comes from files and from clients.

use crate::MetadataError;

/// Kafka's type of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyType {
    /// `true` or `false`.
    Boolean,
    /// 32 bits.
    Int,
    /// 64 bits.
    Long,
    /// 16 bits.
    Short,
    /// A floating point number.
    Double,
    /// Text.
    String,
    /// Texts with commas between them.
    List,
    /// The name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

impl PropertyType {
    /// The number of the type in DescribeConfigs answers.
    pub fn config_type_id(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// Kafka's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::Int => "INT",
            Self::Long => "LONG",
            Self::Short => "SHORT",
            Self::Double => "DOUBLE",
            Self::String => "STRING",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }

    /// Whether values of this type must never be shown.
    pub fn is_sensitive(self) -> bool {
        self == Self::Password
    }
}

/// The values that a property takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Range {
    /// Every value of the type.
    Any,
    /// A number between two bounds, or the one exception.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
        /// A value outside the bounds that is taken too.
        or: Option<f64>,
    },
    /// One of some words, for a list each element. A word that ends in `*` stands for all that begin like it.
    OneOf {
        /// The words.
        words: Vec<&'static str>,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
    /// Not empty.
    NonEmpty,
    /// `partition:broker` pairs or `*`.
    ThrottledReplicas,
}

impl Range {
    /// Reads the range column of the table.
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        let words =
            |list: &'static str| list.strip_suffix('}').map(|list| list.split(',').collect::<Vec<_>>());
        Some(match text {
            "-" => Self::Any,
            "non-empty" => Self::NonEmpty,
            "throttled" => Self::ThrottledReplicas,
            _ if text.starts_with("i{") => Self::OneOf { words: words(&text[2..])?, ignore_case: true },
            _ if text.starts_with('{') => Self::OneOf { words: words(&text[1..])?, ignore_case: false },
            _ => {
                let (bounds, or) = match text.split_once(" or ") {
                    Some((bounds, or)) => (bounds, Some(or.parse().ok()?)),
                    None => (text, None),
                };
                let (min, max) = bounds.split_once("..")?;
                let max = if max.is_empty() { f64::INFINITY } else { max.parse().ok()? };
                Self::Number { min: min.parse().ok()?, max, or }
            }
        })
    }

    /// The element of a list that breaks the range.
    fn broken_in(&self, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::OneOf { .. }, Value::List(texts)) => {
                texts.iter().find(|text| self.broken_by(&Value::String((*text).clone())).is_some()).cloned()
            }
            _ => None,
        }
    }

    /// The limit that `value` breaks, in Kafka's words.
    fn broken_by(&self, value: &Value) -> Option<String> {
        match self {
            Self::Any => None,
            Self::Number { min, max, or } => {
                let number = value.as_f64()?;
                if *or == Some(number) || (*min..=*max).contains(&number) {
                    None
                } else if let (Some(or), true) = (or, max.is_finite()) {
                    Some(format!("value must be between {min} and {max} or equal to {or}"))
                } else if number < *min {
                    Some(format!("value must be at least {min}"))
                } else if number > *max {
                    Some(format!("value must be no more than {max}"))
                } else {
                    None
                }
            }
            Self::OneOf { words, ignore_case } => {
                let fits = |text: &str| {
                    words.iter().any(|word| match word.strip_suffix('*') {
                        Some(start) => text.starts_with(start),
                        None if *ignore_case => word.eq_ignore_ascii_case(text),
                        None => *word == text,
                    })
                };
                let all_fit = match value {
                    Value::List(texts) => texts.iter().all(|text| fits(text)),
                    Value::String(text) => fits(text),
                    _ => true,
                };
                let case = if *ignore_case { " (case insensitive)" } else { "" };
                (!all_fit).then(|| format!("string must be one of{case}: {}", words.join(", ")))
            }
            Self::NonEmpty => match value {
                Value::String(text) if text.is_empty() => Some("string must be non-empty".to_owned()),
                _ => None,
            },
            Self::ThrottledReplicas => {
                let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
                // As in Kafka, elements may be empty, and the literal stands alone.
                let fits = |text: &String| {
                    text.is_empty()
                        || text
                            .split_once(':')
                            .is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
                };
                let is_all = |texts: &[String]| texts.concat() == "*";
                match value {
                    Value::List(texts) if !texts.iter().all(fits) && !is_all(texts) => Some(
                        "must be the literal '*' or a list of replicas in the following format: \
                         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                            .to_owned(),
                    ),
                    _ => None,
                }
            }
        }
    }
}

/// A parsed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// See [`PropertyType::Boolean`].
    Boolean(bool),
    /// See [`PropertyType::Int`].
    Int(i32),
    /// See [`PropertyType::Long`].
    Long(i64),
    /// See [`PropertyType::Short`].
    Short(i16),
    /// See [`PropertyType::Double`].
    Double(f64),
    /// A string, a class name or a password.
    String(String),
    /// See [`PropertyType::List`].
    List(Vec<String>),
}

impl Value {
    /// Parses `text` as the value of the property `name` and checks its range.
    ///
    /// # Errors
    /// [`MetadataError::InvalidValue`] with the name, the value and the limit that it broke.
    pub fn parse(name: &str, kind: PropertyType, range: &Range, text: &str) -> Result<Self, MetadataError> {
        let invalid = |reason: String| MetadataError::InvalidValue {
            name: name.to_owned(),
            value: if kind.is_sensitive() { "[hidden]".to_owned() } else { text.trim().to_owned() },
            reason,
        };
        let trimmed = text.trim();
        let value = match kind {
            PropertyType::Boolean if trimmed.eq_ignore_ascii_case("true") => Self::Boolean(true),
            PropertyType::Boolean if trimmed.eq_ignore_ascii_case("false") => Self::Boolean(false),
            PropertyType::Boolean => {
                return Err(invalid("expected value to be either true or false".to_owned()));
            }
            PropertyType::Int | PropertyType::Long | PropertyType::Short => {
                let number = parse_integer(name, kind, trimmed).map_err(invalid)?;
                match kind {
                    PropertyType::Int => Self::Int(i32::try_from(number).map_err(|_| {
                        invalid(format!(
                            "not a number of type INT: it must be within {} and {}",
                            i32::MIN,
                            i32::MAX
                        ))
                    })?),
                    PropertyType::Short => Self::Short(i16::try_from(number).map_err(|_| {
                        invalid(format!(
                            "not a number of type SHORT: it must be within {} and {}",
                            i16::MIN,
                            i16::MAX
                        ))
                    })?),
                    _ => Self::Long(number),
                }
            }
            PropertyType::Double => match trimmed.parse::<f64>() {
                Ok(number) if number.is_finite() => Self::Double(number),
                _ => return Err(invalid("not a number of type DOUBLE".to_owned())),
            },
            PropertyType::List if trimmed.is_empty() => Self::List(Vec::new()),
            PropertyType::List => Self::List(trimmed.split(',').map(|part| part.trim().to_owned()).collect()),
            PropertyType::Password => Self::String(text.to_owned()),
            PropertyType::String | PropertyType::Class => Self::String(trimmed.to_owned()),
        };
        match range.broken_by(&value) {
            Some(reason) => match range.broken_in(&value) {
                Some(element) => {
                    Err(MetadataError::InvalidValue { name: name.to_owned(), value: element, reason })
                }
                None => Err(invalid(reason)),
            },
            None => Ok(value),
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(f64::from(*number)),
            Self::Short(number) => Some(f64::from(*number)),
            // Exact up to 2^53: far above every bound of the table.
            Self::Long(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            _ => None,
        }
    }
}

/// The value as Kafka writes it in answers: sizes as plain numbers, doubles as Java prints them.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Long(value) => write!(f, "{value}"),
            Self::Short(value) => write!(f, "{value}"),
            Self::Double(value) => f.write_str(&java_double(*value)),
            Self::String(value) => f.write_str(value),
            Self::List(values) => f.write_str(&values.join(",")),
        }
    }
}

fn java_double(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => format!("{mantissa}E{exponent}"),
        Some((mantissa, exponent)) => format!("{mantissa}.0E{exponent}"),
        None => text,
    }
}

/// Whether the property is a size in bytes, which may carry a unit.
fn is_size(name: &str) -> bool {
    name.contains("bytes") || name.ends_with("buffer.size")
}

const UNITS: [(&str, i64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// A whole number, or a size with a binary unit. The error says what to write instead.
fn parse_integer(name: &str, kind: PropertyType, text: &str) -> Result<i64, String> {
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number);
    }
    let not_a_number = format!("not a number of type {}", kind.name());
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let (Ok(number), true) = (number.parse::<i64>(), unit.chars().all(|c| c.is_ascii_alphabetic())) else {
        return Err(not_a_number);
    };
    if !is_size(name) {
        return Err(format!("{not_a_number}: write it without a unit"));
    }
    if let Some((_, factor)) = UNITS.iter().find(|(known, _)| *known == unit) {
        return number.checked_mul(*factor).ok_or(format!("{not_a_number}: it must be within {}", i64::MAX));
    }
    let likely =
        UNITS.iter().find(|(known, _)| known[..1].eq_ignore_ascii_case(unit.get(..1).unwrap_or_default()));
    Err(match likely {
        Some((known, factor)) if unit.len() <= 3 => format!(
            "{not_a_number}: write {number}{known} ({} bytes); the units are KiB, MiB, GiB and TiB",
            number.saturating_mul(*factor)
        ),
        _ => format!("{not_a_number}: the units are KiB, MiB, GiB and TiB"),
    })
}

/// A Rust type that a [`Key`](super::Key) can give.
pub trait FromValue: Sized {
    /// The table types that it reads.
    const TYPES: &'static [PropertyType];
    /// Whether a missing value is one too.
    const NULLABLE: bool = false;
    /// The value, `None` when the table has another type.
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

macro_rules! from_value {
    ($($rust:ty: $variant:ident [$($kind:ident),*];)*) => {$(
        impl FromValue for $rust {
            const TYPES: &'static [PropertyType] = &[$(PropertyType::$kind),*];
            fn from_value(value: Option<&Value>) -> Option<Self> {
                match value {
                    Some(Value::$variant(value)) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    )*};
}

from_value! {
    bool: Boolean [Boolean];
    i32: Int [Int];
    i64: Long [Long];
    i16: Short [Short];
    f64: Double [Double];
    String: String [String, Class, Password];
    Vec<String>: List [List];
}

impl<T: FromValue> FromValue for Option<T> {
    const TYPES: &'static [PropertyType] = T::TYPES;
    const NULLABLE: bool = true;
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            some => T::from_value(some).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, kind: PropertyType, text: &str) -> Result<Value, String> {
        Value::parse(name, kind, &Range::Any, text).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_take_binary_units_only() {
        assert_eq!(parse("memory.budget.bytes", PropertyType::Long, "64MiB"), Ok(Value::Long(64 << 20)));
        assert_eq!(parse("memory.budget.bytes", PropertyType::Long, " 1 GiB "), Ok(Value::Long(1 << 30)));
        assert_eq!(parse("message.max.bytes", PropertyType::Int, "512KiB"), Ok(Value::Int(512 << 10)));
        let error = parse("message.max.bytes", PropertyType::Int, "1m").unwrap_err();
        assert_eq!(
            error,
            "invalid value 1m for message.max.bytes: not a number of type INT: write 1MiB (1048576 bytes); the units \
             are KiB, MiB, GiB and TiB"
        );
        assert!(parse("message.max.bytes", PropertyType::Int, "4GiB").unwrap_err().contains("type INT"));
        assert!(parse("x.bytes", PropertyType::Long, "9000000000TiB").unwrap_err().contains("within"));
        assert!(parse("retention.ms", PropertyType::Long, "7d").unwrap_err().contains("without a unit"));
        assert!(parse("x.bytes", PropertyType::Long, "").is_err());
        assert!(parse("x.bytes", PropertyType::Long, "MiB").is_err());
    }

    #[test]
    fn ranges_name_the_limit_they_hold() {
        let range = Range::parse("1..9 or -1").unwrap();
        assert!(Value::parse("n", PropertyType::Int, &range, "-1").is_ok());
        let error = Value::parse("n", PropertyType::Int, &range, "10").unwrap_err();
        assert_eq!(
            error.kafka_message(),
            "Invalid value 10 for configuration n: Value must be between 1 and 9 or equal to -1"
        );
        let range = Range::parse("{compact,delete}").unwrap();
        assert!(Value::parse("p", PropertyType::List, &range, "compact, delete").is_ok());
        assert!(Value::parse("p", PropertyType::List, &range, "compact,gone").is_err());
        let range = Range::parse("i{ES256,RS256}").unwrap();
        assert!(Value::parse("p", PropertyType::String, &range, "rs256").is_ok());
        let range = Range::parse("throttled").unwrap();
        for (text, is_taken) in [
            ("0:1,1:2", true),
            ("0:1,", true),
            ("", true),
            ("*", true),
            ("0:x", false),
            ("0:1,*", false),
            ("*,*", false),
            ("0:+1", false),
            ("0:", false),
        ] {
            let taken = Value::parse("p", PropertyType::List, &range, text);
            assert_eq!(taken.is_ok(), is_taken, "{text}: {taken:?}");
        }
    }

    #[test]
    fn passwords_do_not_appear_in_errors() {
        let range = Range::parse("non-empty").unwrap();
        let error = Value::parse("p", PropertyType::Password, &range, "").unwrap_err();
        assert!(error.to_string().contains("[hidden]"));
    }

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        assert_eq!(Value::Double(0.5).to_string(), "0.5");
        assert_eq!(Value::Double(1.0).to_string(), "1.0");
        assert_eq!(Value::Double(f64::MAX).to_string(), "1.7976931348623157E308");
        assert_eq!(Value::Double(1e8).to_string(), "1.0E8");
    }
}
