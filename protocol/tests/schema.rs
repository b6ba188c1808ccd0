//! The generated code against the schema: it is fresh, and a second implementation of the wire format (the schema
//! interpreter in `xtask`) makes messages that it reads and writes back byte for byte, at every version.

use weir_protocol::messages::{ApiKey, Kind, MESSAGES, MessageInfo};
use weir_protocol::wire::{DecodeError, Reader};
use xtask::random::{Rng, message};
use xtask::schema::Message;

fn schema() -> Vec<Message> {
    let mut rooms = xtask::generate::rooms().unwrap();
    rooms.sort_by(|a, b| a.module.cmp(&b.module));
    rooms.into_iter().flat_map(|r| r.messages).collect()
}

fn pairs() -> Vec<(&'static MessageInfo, Message)> {
    let schema = schema();
    assert_eq!(schema.len(), MESSAGES.len());
    MESSAGES.iter().zip(schema).inspect(|(info, m)| assert_eq!(info.name, m.name())).collect()
}

fn recode(info: &MessageInfo, version: i16, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut r = Reader::new(bytes, 1 << 20);
    let mut out = Vec::new();
    let written = (info.recode)(&mut r, version, &mut out, version)?;
    r.finish()?;
    written.unwrap_or_else(|e| panic!("{} v{version}: {e}", info.name));
    Ok(out)
}

#[test]
fn generated_code_is_fresh() {
    xtask::generate::check().unwrap();
}

#[test]
fn every_message_comes_back_byte_for_byte_at_every_version() {
    let mut rng = Rng(3);
    for (info, schema) in pairs() {
        for version in info.min_version..=info.max_version {
            for round in 0..30 {
                let seed = rng.next_u64();
                let bytes = message(&schema, version, &mut Rng(seed));
                let again = recode(info, version, &bytes);
                assert_eq!(again.as_ref(), Ok(&bytes), "{} v{version} round {round} seed {seed}", info.name);
            }
        }
    }
}

#[test]
fn no_prefix_of_a_message_is_a_message() {
    let mut rng = Rng(4);
    for (info, schema) in pairs() {
        let version = info.max_version;
        let bytes = message(&schema, version, &mut rng);
        for len in 0..bytes.len().min(300) {
            let result = recode(info, version, &bytes[..len]);
            assert!(
                result.is_err(),
                "{} v{version}: {len} of {} bytes were accepted",
                info.name,
                bytes.len()
            );
        }
    }
}

#[test]
fn versions_outside_the_range_are_refused() {
    for info in MESSAGES {
        for version in [info.min_version - 1, info.max_version + 1] {
            let result = (info.recode)(&mut Reader::new(&[0; 64], 1024), version, &mut Vec::new(), version);
            assert!(
                matches!(result, Err(DecodeError::UnsupportedVersion { .. })),
                "{} v{version}",
                info.name
            );
        }
    }
}

#[test]
fn every_advertised_version_has_its_messages() {
    for info in MESSAGES.iter().filter(|i| matches!(i.kind, Kind::Request | Kind::Response)) {
        let key = ApiKey::from_code(info.key.unwrap()).unwrap();
        assert!(info.name.starts_with(key.name()), "{} {key}", info.name);
        let range = key.kafka_4_4().unwrap();
        assert!(info.min_version <= range.min && range.max <= info.max_version, "{}", info.name);
        // AlterPartition 0 and 1 are spoken between brokers and controllers of before 3.2 only; the preview of share
        // groups in 3.9 has nothing to do with what became of it.
        let is_apart = [56, 76, 77, 78, 79].contains(&key.code());
        if let Some(old) = key.kafka_3_9().filter(|_| !is_apart) {
            assert!(info.min_version <= old.min, "{} lacks version {} of 3.9", info.name, old.min);
        }
        let flexible = schema().into_iter().find(|m| m.name() == info.name).unwrap().flexible;
        for version in info.min_version..=info.max_version {
            assert_eq!(key.is_flexible(version), flexible.contains(version), "{} v{version}", info.name);
        }
    }
}
