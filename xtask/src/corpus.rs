//! Seeds for the fuzz entries of the protocol crate's messages: each at its last version and one before, from the
//! schema. Files carry the message's name, so that a change of one changes one file.

use std::fs;
use std::path::Path;

use crate::generate;
use crate::random::{Rng, message};
use crate::schema::{Kind, Message, Mistake};

/// Writes the seeds.
pub fn write() -> Result<(), Mistake> {
    let dir = generate::root().join("protocol/tests/corpus");
    let (messages, frames) = (dir.join("fuzz_message"), dir.join("fuzz_record_frame"));
    for dir in [&messages, &frames] {
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    let mut rooms = generate::rooms()?;
    rooms.sort_by(|a, b| a.module.cmp(&b.module));
    let mut without_key = 0i16;
    for room in &rooms {
        for schema in &room.messages {
            let key = schema.key.unwrap_or(without_key);
            if schema.kind == Kind::Data {
                without_key += 1;
            }
            let span = schema.valid.hi - schema.valid.lo;
            for above in [span, span / 2] {
                let version = schema.valid.lo + above;
                // Names are unique, so they make a seed that no other message's change disturbs.
                let seed = schema
                    .name()
                    .bytes()
                    .fold(version as u64, |seed, b| seed.wrapping_mul(31) + u64::from(b));
                let body = message(schema, version, &mut Rng(seed));
                put(&messages, schema, version, &[&head(schema.kind, key, above), body.as_slice()].concat())?;
                if let Some(which) =
                    ["metadata_records", "remote_log_records"].iter().position(|m| *m == room.module)
                {
                    put(
                        &frames,
                        schema,
                        version,
                        &[&[which as u8, 1, key as u8, version as u8], body.as_slice()].concat(),
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn head(kind: Kind, key: i16, above: i16) -> [u8; 4] {
    let kind = match kind {
        Kind::Request => 0,
        Kind::Response => 1,
        Kind::Data => 2,
        Kind::Record => 3,
        Kind::Key => 4,
        Kind::Value => 5,
    };
    let [high, low] = key.to_be_bytes();
    [kind, high, low, above as u8]
}

fn put(dir: &Path, schema: &Message, version: i16, bytes: &[u8]) -> Result<(), Mistake> {
    let path = dir.join(format!("{}-{version}", schema.name()));
    fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
