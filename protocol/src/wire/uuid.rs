//! Kafka's UUIDs: 16 bytes on the wire, unpadded base64url in text.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A topic, directory, member or incarnation id, big-endian as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All bits zero: "no id" throughout the protocol.
    pub const ZERO: Self = Self([0; 16]);

    /// The id whose two 64-bit halves are `high` and `low`, as Kafka's documents write reserved ids.
    #[must_use]
    pub const fn from_halves(high: u64, low: u64) -> Self {
        Self((((high as u128) << 64) | low as u128).to_be_bytes())
    }

    /// Whether this is [`Uuid::ZERO`].
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 128 bits in 22 digits of 6 bits: the last digit carries two bits, padded with zeros on the right.
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0u8; 22];
        for (i, digit) in text.iter_mut().enumerate() {
            let six = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
            *digit = ALPHABET[(six & 63) as usize];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an unpadded (or `==`-padded) base64url form of 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a uuid in base64url form of 22 characters")]
pub struct ParseUuidError;

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let digits = text.strip_suffix("==").unwrap_or(text).as_bytes();
        if digits.len() != 22 {
            return Err(ParseUuidError);
        }
        let mut bits = 0u128;
        for (i, digit) in digits.iter().enumerate() {
            let six = ALPHABET.iter().position(|a| a == digit).ok_or(ParseUuidError)? as u128;
            bits = if i < 21 { (bits << 6) | six } else { (bits << 2) | (six >> 4) };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_kafkas_base64url() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid::from_halves(0, 1).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(Uuid([0xff; 16]).to_string(), "_____________________w");
        for text in ["AAAAAAAAAAAAAAAAAAAAAQ", "_____________________w", "J8qXRwI-Qyi2G0guFTiuYw"] {
            assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        }
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAQ==".parse(), Ok(Uuid::from_halves(0, 1)));
        for bad in ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAA+", "AAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(bad.parse::<Uuid>(), Err(ParseUuidError), "{bad}");
        }
    }
}
