//! The codec against Apache Kafka's own message classes.
//!
//! Runs when `WEIR_ORACLE_CLASSPATH` names a directory of Kafka's jars (kafka-clients, kafka-metadata,
//! kafka-group-coordinator, kafka-transaction-coordinator, kafka-storage, and what they need). Several directories are
//! separated by `:` and each is an oracle of its own: 4.4.0 first, then 3.9.2 for the versions that only it has.
//! Needs a JDK of 17 or newer. When it is set and the oracle does not work, these tests fail.
//! `WEIR_ORACLE_ROUNDS` multiplies the number of messages.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use weir_protocol::messages::{ApiKey, ErrorCode, MESSAGES, MessageInfo};
use weir_protocol::wire::{DecodeError, Reader};
use xtask::random::{Rng, message};
use xtask::schema::{Base, Field, Message};

/// Kafka's classes in a process of their own.
struct Oracle {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Ok(String),
    None,
    Trailing,
    Refused(String),
}

impl Oracle {
    fn start(jars: &str) -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/Oracle.java");
        let mut process = Command::new("java")
            .args([
                "-Xmx256m",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                &format!("{}/*", jars.trim_end_matches("/*")),
                program,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java starts");
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut oracle = Self { process, input, output };
        let alive = oracle.ask("range MetadataRequest");
        assert!(matches!(alive, Answer::Ok(_)), "no Kafka classes in {jars}: {alive:?}");
        oracle
    }

    fn ask(&mut self, line: &str) -> Answer {
        writeln!(self.input, "{line}").expect("the oracle lives");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the oracle answers");
        let answer = answer.trim_end();
        match answer.split_once(' ').unwrap_or((answer, "")) {
            ("ok", rest) => Answer::Ok(rest.to_owned()),
            ("none", _) => Answer::None,
            ("trailing", _) => Answer::Trailing,
            ("refused", reason) => Answer::Refused(reason.to_owned()),
            _ => panic!("the oracle says {answer:?} to {line:?}"),
        }
    }

    fn recode(&mut self, name: &str, from: i16, to: i16, bytes: &[u8]) -> Answer {
        self.ask(&format!("recode {name} {from} {to} {}", hex(bytes)))
    }

    /// The versions that Kafka and we both have of a message.
    fn common_versions(&mut self, info: &MessageInfo) -> Option<(i16, i16)> {
        let Answer::Ok(range) = self.ask(&format!("range {}", info.name)) else { return None };
        let (min, max) = range.split_once(' ').unwrap();
        Some((info.min_version.max(min.parse().unwrap()), info.max_version.min(max.parse().unwrap())))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn oracles() -> Vec<Oracle> {
    match std::env::var("WEIR_ORACLE_CLASSPATH") {
        Ok(dirs) => dirs.split(':').map(Oracle::start).collect(),
        Err(_) => {
            eprintln!("WEIR_ORACLE_CLASSPATH is not set: skipped");
            Vec::new()
        }
    }
}

fn rounds(base: u64) -> u64 {
    base * std::env::var("WEIR_ORACLE_ROUNDS").map_or(1, |n| n.parse().expect("a number"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn schema() -> Vec<Message> {
    let mut rooms = xtask::generate::rooms().unwrap();
    rooms.sort_by(|a, b| a.module.cmp(&b.module));
    rooms.into_iter().flat_map(|r| r.messages).collect()
}

/// What we make of the same bytes.
enum Ours {
    Bytes(Vec<u8>),
    EncodeRefused(String),
    DecodeRefused(DecodeError),
}

fn ours(info: &MessageInfo, from: i16, to: i16, bytes: &[u8]) -> Ours {
    let mut r = Reader::new(bytes, 1 << 20);
    let mut out = Vec::new();
    match (info.recode)(&mut r, from, &mut out, to).and_then(|written| r.finish().map(|()| written)) {
        Ok(Ok(())) => Ours::Bytes(out),
        Ok(Err(error)) => Ours::EncodeRefused(error.to_string()),
        Err(error) => Ours::DecodeRefused(error),
    }
}

#[test]
fn kafka_has_every_version_that_we_have_and_we_have_kafkas() {
    // Only the newest release in the list has everything.
    for mut oracle in oracles().into_iter().take(1) {
        for info in MESSAGES {
            let Answer::Ok(range) = oracle.ask(&format!("range {}", info.name)) else {
                panic!("Kafka has no {}", info.name)
            };
            let (kafka_min, kafka_max) = range.split_once(' ').unwrap();
            assert_eq!(kafka_max, info.max_version.to_string(), "last version of {}", info.name);
            // Ours may begin earlier: with what 3.9 serves.
            assert!(info.min_version <= kafka_min.parse().unwrap(), "first version of {}", info.name);
        }
    }
}

/// The same text that `Oracle.java` makes of Kafka's classes.
fn shape(message: &Message, index: usize, version: i16, out: &mut String) {
    let fields = || message.structs[index].fields.iter().filter(|f| f.versions.contains(version));
    let one = |field: &Field, out: &mut String| {
        out.push_str(&field.name.replace('_', ""));
        out.push(':');
        if field.is_list {
            out.push_str(if field.nullable.contains(version) { "?[:" } else { "[:" });
        }
        let null = if !field.is_list && field.nullable.contains(version) { "?" } else { "" };
        let name = match field.base {
            Base::Struct(index) => {
                out.push_str(null);
                shape(message, index, version, out);
                out.push_str(if field.is_list { "]" } else { "" });
                return;
            }
            Base::Bool => "BOOLEAN",
            Base::Int8 => "INT8",
            Base::Int16 | Base::ErrorCode => "INT16",
            Base::Uint16 => "UINT16",
            Base::Uint32 => "UINT32",
            Base::Int32 => "INT32",
            Base::Int64 => "INT64",
            Base::Float64 => "FLOAT64",
            Base::String => "STRING",
            Base::Bytes => "BYTES",
            Base::Uuid => "UUID",
        };
        out.push_str(&format!("{null}{name} {}", if field.is_list { "]" } else { "" }));
    };
    out.push('{');
    for field in fields().filter(|f| f.tag.is_none()) {
        one(field, out);
    }
    let mut tagged: Vec<(u32, &Field)> = fields().filter_map(|f| Some((f.tag?, f))).collect();
    tagged.sort_by_key(|(tag, _)| *tag);
    for (tag, field) in tagged {
        out.push_str(&format!("{tag}#"));
        one(field, out);
    }
    out.push('}');
}

#[test]
fn fields_and_tags_are_kafkas_at_every_version() {
    let schema = schema();
    let mut differences = Vec::new();
    let mut newest_first: Vec<Option<i16>> = Vec::new();
    for (at, mut oracle) in oracles().into_iter().enumerate() {
        for (index, (info, schema)) in MESSAGES.iter().zip(&schema).enumerate() {
            let range = oracle.common_versions(info);
            // Releases add tags to versions that exist, so an older one is asked only for what the newest has dropped.
            let last = newest_first.get(index).copied().flatten().map_or(i16::MAX, |first| first - 1);
            if at == 0 {
                newest_first.push(range.map(|(first, _)| first));
            }
            let Some((min, max)) = range else { continue };
            for version in min..=max.min(last) {
                let mut ours = String::new();
                shape(schema, 0, version, &mut ours);
                let kafkas = oracle.ask(&format!("shape {} {version}", info.name));
                // Kafka's type for records does not tell whether they may be null.
                let plain = |shape: &str| shape.replace("?BYTES", "BYTES");
                if !matches!(&kafkas, Answer::Ok(kafkas) if plain(kafkas) == plain(&ours)) {
                    differences.push(format!("{} v{version}: ours {ours}\n  Kafka {kafkas:?}", info.name));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn header_versions_and_errors_are_kafkas() {
    for (at, mut oracle) in oracles().into_iter().enumerate() {
        for key in ApiKey::all() {
            let range = if at == 0 { key.kafka_4_4() } else { key.kafka_3_9() };
            let Some(range) = range else { continue };
            for version in range.min..=range.max {
                let headers = (key.request_header_version(version), key.response_header_version(version));
                let answer = oracle.ask(&format!("api {} {version}", key.code()));
                // ListConfigResources had another name when it listed one kind of them.
                if let (Answer::Ok(kafkas), false) = (&answer, at > 0 && key == ApiKey::ListConfigResources) {
                    assert_eq!(*kafkas, format!("{} {} {}", key.name(), headers.0, headers.1), "v{version}");
                } else {
                    assert!(at > 0, "{key} v{version}: {answer:?}");
                }
            }
        }
        for code in -2..200 {
            let ours = ErrorCode(code);
            match (ours.name(), oracle.ask(&format!("error {code}"))) {
                (Some(name), Answer::Ok(kafkas)) => {
                    assert_eq!(kafkas, format!("{name} {}", ours.is_retriable()), "error {code}");
                }
                (name, answer) => {
                    assert!(answer == Answer::None && (name.is_none() || at > 0), "error {code}")
                }
            }
        }
    }
}

#[test]
fn what_kafka_writes_comes_back_byte_for_byte() {
    let mut rng = Rng(11);
    for mut oracle in oracles() {
        for info in MESSAGES {
            let Some((min, max)) = oracle.common_versions(info) else { continue };
            for version in min..=max {
                for _ in 0..rounds(12) {
                    let seed = rng.next_u64() >> 1;
                    let line = format!("fill {} {version} {seed}", info.name);
                    let Answer::Ok(text) = oracle.ask(&line) else {
                        panic!("{line}: {:?}", oracle.ask(&line))
                    };
                    let bytes = unhex(&text);
                    match ours(info, version, version, &bytes) {
                        Ours::Bytes(again) => assert_eq!(hex(&again), text, "{line}"),
                        Ours::EncodeRefused(error) => panic!("{line}: {text}: encode: {error}"),
                        Ours::DecodeRefused(error) => panic!("{line}: {text}: decode: {error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn what_we_write_comes_back_byte_for_byte_from_kafka() {
    let mut rng = Rng(12);
    let schema = schema();
    for mut oracle in oracles() {
        for (info, schema) in MESSAGES.iter().zip(&schema) {
            let Some((min, max)) = oracle.common_versions(info) else { continue };
            for version in min..=max {
                for _ in 0..rounds(12) {
                    let seed = rng.next_u64();
                    let bytes = message(schema, version, &mut Rng(seed));
                    let Ours::Bytes(written) = ours(info, version, version, &bytes) else {
                        panic!("{} v{version} seed {seed}", info.name)
                    };
                    let answer = oracle.recode(info.name, version, version, &written);
                    assert_eq!(answer, Answer::Ok(hex(&written)), "{} v{version} seed {seed}", info.name);
                }
            }
        }
    }
}

#[test]
fn moved_to_another_version_a_message_keeps_loses_or_refuses_the_same_as_in_kafka() {
    let mut rng = Rng(13);
    let mut differences = std::collections::BTreeSet::<String>::new();
    for mut oracle in oracles() {
        for info in MESSAGES {
            let Some((min, max)) = oracle.common_versions(info) else { continue };
            for from in min..=max {
                for to in (min..=max).filter(|to| *to != from) {
                    for _ in 0..rounds(2) {
                        let seed = rng.next_u64() >> 1;
                        let line = format!("fill {} {from} {seed}", info.name);
                        let Answer::Ok(text) = oracle.ask(&line) else { panic!("{line}") };
                        let bytes = unhex(&text);
                        let kafkas = oracle.recode(info.name, from, to, &bytes);
                        let context = format!("{} v{from} to v{to}: {text}", info.name);
                        match (ours(info, from, to, &bytes), kafkas) {
                            (Ours::Bytes(ours), Answer::Ok(kafkas)) => {
                                assert_eq!(hex(&ours), kafkas, "{context}");
                            }
                            (Ours::EncodeRefused(_), Answer::Refused(_)) => {}
                            (Ours::Bytes(_), kafkas) => {
                                differences.insert(format!("{} v{from} to v{to}: {kafkas:?}", info.name));
                            }
                            (Ours::EncodeRefused(error), _) => {
                                differences.insert(error);
                            }
                            (Ours::DecodeRefused(error), _) => panic!("{context}: {error}"),
                        }
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "refused by one alone: {differences:#?}");
}

/// The places where we refuse what Kafka reads: the list in the documentation of `wire`.
fn is_stricter_on_purpose(error: &DecodeError) -> bool {
    matches!(
        error,
        DecodeError::TagOrder { .. }
            | DecodeError::TagSize { .. }
            | DecodeError::BadVarint { .. }
            | DecodeError::BadLength { .. }
    )
}

#[test]
fn damaged_messages_are_refused_where_kafka_refuses_them() {
    let mut rng = Rng(14);
    let schema = schema();
    let (mut both_read, mut both_refuse, mut stricter) = (0, 0, 0);
    // The newest release only: an older one keeps as raw bytes the tags that it does not know.
    for mut oracle in oracles().into_iter().take(1) {
        for (info, schema) in MESSAGES.iter().zip(&schema) {
            let Some((min, max)) = oracle.common_versions(info) else { continue };
            for version in min..=max {
                for _ in 0..rounds(12) {
                    let mut bytes = message(schema, version, &mut rng);
                    damage(&mut bytes, &mut rng);
                    let context = format!("{} v{version}: {}", info.name, hex(&bytes));
                    match (
                        ours(info, version, version, &bytes),
                        oracle.recode(info.name, version, version, &bytes),
                    ) {
                        (Ours::Bytes(ours), Answer::Ok(kafkas)) => {
                            both_read += 1;
                            // Replacements of malformed UTF-8 are cut differently for encoded surrogates.
                            if hex(&ours) != kafkas && !kafkas.contains("efbfbd") {
                                panic!("{context}: read differently: {} {kafkas}", hex(&ours));
                            }
                        }
                        (Ours::DecodeRefused(_), Answer::Refused(_) | Answer::Trailing) => both_refuse += 1,
                        (Ours::EncodeRefused(_), Answer::Refused(_)) => both_refuse += 1,
                        (Ours::DecodeRefused(error), _) if is_stricter_on_purpose(&error) => stricter += 1,
                        (Ours::DecodeRefused(error), kafkas) => {
                            panic!("{context}: {error}; Kafka: {kafkas:?}")
                        }
                        (Ours::EncodeRefused(error), kafkas) => {
                            panic!("{context}: {error}; Kafka: {kafkas:?}")
                        }
                        (Ours::Bytes(_), kafkas) => panic!("{context}: Kafka: {kafkas:?}"),
                    }
                }
            }
        }
        println!("read by both {both_read}, refused by both {both_refuse}, by us alone {stricter}");
        assert!(both_read > 100 && both_refuse > 100, "the damage is too mild or too hard to tell anything");
    }
}

/// One to three bytes changed, or the end cut off or extended.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    match rng.below(10) {
        0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
        1 => bytes.push(rng.next_u64() as u8),
        _ => {
            for _ in 0..=rng.below(3) {
                let at = rng.below(bytes.len() as u64) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [
                        0,
                        1,
                        0x7f,
                        0x80,
                        0xff,
                        byte.wrapping_add(1),
                        byte.wrapping_sub(1),
                        rng.next_u64() as u8,
                    ][rng.below(8) as usize];
                }
            }
        }
    }
}
