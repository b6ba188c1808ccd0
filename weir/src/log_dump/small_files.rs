//! Producer snapshots, checkpoints and the small text files of a log directory.

use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use weir_protocol::records::Crc32c;
use weir_storage::log_dir::parse_clean_shutdown;
use weir_storage::producer_snapshot::{
    SNAPSHOT_CRC_START, SNAPSHOT_ENTRY_BYTES, SNAPSHOT_HEADER_BYTES, decode,
};
use weir_storage::{MetaProperties, partition_metadata as partition_metadata_file};

use super::print::Field::{Number, Text};
use super::print::Printer;
use super::{end_list, open};

/// The largest text file that is read as a whole.
const MAX_TEXT_BYTES: u64 = 64 * 1024;
/// The longest line of a checkpoint that is read.
const MAX_LINE_BYTES: u64 = 1024;

/// Shows a `.snapshot`: the producers as of an offset.
pub(super) fn producers(path: &Path, offset: i64, printer: &mut Printer<'_>) -> io::Result<()> {
    let Some((file, length)) = open(path, "producer snapshot", printer)? else { return Ok(()) };
    let mut source = BufReader::new(file);
    let mut count = 0;
    if let Err(error) = read_producers(&mut source, offset, length, &mut count, printer)? {
        printer.damage(0, length, &format!("cannot be read: {error}"))?;
    }
    end_list(count, length, printer)
}

/// The outer error is the output's, the inner one the file's.
fn read_producers(
    source: &mut (impl Read + Seek),
    offset: i64,
    length: u64,
    count: &mut u64,
    printer: &mut Printer<'_>,
) -> io::Result<io::Result<()>> {
    macro_rules! readable {
        ($result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => return Ok(Err(error)),
            }
        };
    }
    if length < SNAPSHOT_HEADER_BYTES as u64 {
        printer.damage(0, length, &format!("{length} bytes are fewer than a snapshot has"))?;
        return Ok(Ok(()));
    }
    let mut header = [0; SNAPSHOT_HEADER_BYTES];
    readable!(source.read_exact(&mut header));
    let [v0, v1, c0, c1, c2, c3, n0, n1, n2, n3] = header;
    let (version, promised) = (i16::from_be_bytes([v0, v1]), i32::from_be_bytes([n0, n1, n2, n3]));
    let stored = u32::from_be_bytes([c0, c1, c2, c3]);
    if version != 1 {
        printer.damage(0, length, &format!("unknown version {version}"))?;
        return Ok(Ok(()));
    }
    let mut crc = Crc32c::new();
    crc.update(&header[SNAPSHOT_CRC_START..]);
    let mut window = [0; 16 * 1024];
    loop {
        match readable!(source.read(&mut window)) {
            0 => break,
            read => crc.update(&window[..read]),
        }
    }
    if crc.value() != stored {
        printer.damage(0, length, &format!("its CRC is {:08x}, it claims {stored:08x}", crc.value()))?;
    }
    let body = length - SNAPSHOT_HEADER_BYTES as u64;
    if u64::try_from(promised).ok().map(|count| count * SNAPSHOT_ENTRY_BYTES as u64) != Some(body) {
        let reason = format!("it promises {promised} entries, which do not take {body} bytes");
        printer.damage(SNAPSHOT_CRC_START as u64, body, &reason)?;
    }
    readable!(source.seek(io::SeekFrom::Start(SNAPSHOT_HEADER_BYTES as u64)));
    for _ in 0..body / SNAPSHOT_ENTRY_BYTES as u64 {
        let mut bytes = [0; SNAPSHOT_ENTRY_BYTES];
        readable!(source.read_exact(&mut bytes));
        let entry = decode(&bytes);
        *count += 1;
        let fields = [
            ("producer_id", Number(entry.producer_id)),
            ("producer_epoch", Number(i64::from(entry.producer_epoch))),
            ("last_sequence", Number(i64::from(entry.last_sequence))),
            ("last_offset", Number(entry.last_offset)),
            ("offset_delta", Number(i64::from(entry.offset_delta))),
            ("timestamp", Number(entry.timestamp)),
            ("coordinator_epoch", Number(i64::from(entry.coordinator_epoch))),
            ("current_txn_first_offset", Number(entry.current_txn_first_offset)),
        ];
        printer.item("producer", 1, &fields)?;
        if entry.last_offset >= offset {
            let at = SNAPSHOT_HEADER_BYTES as u64 + (*count - 1) * SNAPSHOT_ENTRY_BYTES as u64;
            let reason =
                format!("last offset {} lies behind the snapshot's own, {offset}", entry.last_offset);
            printer.damage(at, length - at, &reason)?;
        }
    }
    Ok(Ok(()))
}

/// Shows an offset checkpoint of a log directory.
pub(super) fn offsets(path: &Path, printer: &mut Printer<'_>) -> io::Result<bool> {
    lines(path, "offset checkpoint", printer, |line| {
        let mut words = line.split_ascii_whitespace();
        let (topic, partition, offset) = (words.next()?, words.next()?, words.next()?);
        let partition = partition.parse().ok().filter(|partition: &i64| *partition >= 0)?;
        let offset = offset.parse().ok().filter(|offset: &i64| *offset >= 0)?;
        words.next().is_none().then(|| {
            vec![
                ("topic", Text(topic.to_string())),
                ("partition", Number(partition)),
                ("offset", Number(offset)),
            ]
        })
    })
}

/// Shows the leader epochs of a partition.
pub(super) fn leader_epochs(path: &Path, printer: &mut Printer<'_>) -> io::Result<bool> {
    let mut last: Option<(i64, i64)> = None;
    lines(path, "leader epochs", printer, |line| {
        let mut words = line.split_ascii_whitespace();
        let epoch = words.next()?.parse().ok().filter(|epoch: &i64| *epoch >= 0)?;
        let start = words.next()?.parse().ok().filter(|start: &i64| *start >= 0)?;
        let grows = last.is_none_or(|(e, s)| e < epoch && s < start);
        last = Some((epoch, start));
        (grows && words.next().is_none())
            .then(|| vec![("epoch", Number(epoch)), ("start_offset", Number(start))])
    })
}

type Line = Vec<(&'static str, super::print::Field<'static>)>;

/// Kafka's frame of a text checkpoint: version 0, the number of entries, one entry a line.
fn lines(
    path: &Path,
    kind: &'static str,
    printer: &mut Printer<'_>,
    mut parse: impl FnMut(&str) -> Option<Line>,
) -> io::Result<bool> {
    let Some((file, length)) = open(path, kind, printer)? else { return Ok(true) };
    let mut source = BufReader::new(file);
    let mut promised = None;
    let (mut position, mut number, mut count) = (0_u64, 0_u64, 0_u64);
    loop {
        let mut line = Vec::new();
        let read = match (&mut source).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(read) => read as u64,
            Err(error) => {
                printer.damage(
                    position,
                    length.saturating_sub(position),
                    &format!("cannot be read: {error}"),
                )?;
                break;
            }
        };
        let after = length.saturating_sub(position + read);
        let cut = read == MAX_LINE_BYTES && line.last() != Some(&b'\n');
        let text = std::str::from_utf8(&line).ok().map(str::trim).filter(|_| !cut);
        let fault = match (number, text) {
            (_, None) => {
                Some(format!("line {} is no text or longer than {MAX_LINE_BYTES} bytes", number + 1))
            }
            (0, Some("0")) => None,
            (0, Some(version)) => Some(format!("unknown version {version:?}")),
            (1, Some(text)) => {
                promised = text.parse::<u64>().ok();
                promised.is_none().then(|| format!("the number of entries {text:?} is no number"))
            }
            (_, Some("")) => None,
            (_, Some(text)) => match parse(text) {
                Some(fields) => {
                    count += 1;
                    printer.item("entry", 1, &fields)?;
                    None
                }
                None => Some(format!("line {} is no entry: {text:?}", number + 1)),
            },
        };
        if let Some(reason) = fault {
            printer.damage(position, after, &reason)?;
            // Behind a frame that is wrong nothing means what it should.
            if number < 2 || cut {
                break;
            }
        }
        position += read;
        number += 1;
    }
    if number > 1 && promised != Some(count) {
        let promised = promised.map_or("an unknown number of".to_string(), |promised| promised.to_string());
        printer.damage(position, 0, &format!("it promises {promised} entries and holds {count}"))?;
    }
    end_list(count, length, printer)?;
    Ok(true)
}

/// Reads a whole small file and lets `show` describe it.
fn small(
    path: &Path,
    kind: &'static str,
    printer: &mut Printer<'_>,
    show: impl FnOnce(&[u8]) -> Result<Line, String>,
) -> io::Result<bool> {
    let Some((file, length)) = open(path, kind, printer)? else { return Ok(true) };
    let mut bytes = Vec::new();
    if length > MAX_TEXT_BYTES {
        printer.damage(
            0,
            length,
            &format!("{length} bytes are more than the {MAX_TEXT_BYTES} that it can have"),
        )?;
    } else if let Err(error) = file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes) {
        printer.damage(0, length, &format!("cannot be read: {error}"))?;
    } else {
        match show(&bytes) {
            Ok(fields) => printer.item("content", 1, &fields)?,
            Err(reason) => printer.damage(0, length, &reason)?,
        }
    }
    Ok(true)
}

/// Shows `partition.metadata`.
pub(super) fn partition_metadata(path: &Path, printer: &mut Printer<'_>) -> io::Result<bool> {
    small(path, "partition metadata", printer, |bytes| {
        let id = partition_metadata_file::parse(bytes, path).map_err(|error| error.to_string())?;
        Ok(vec![("topic_id", Text(id.to_string()))])
    })
}

/// Shows `meta.properties`.
pub(super) fn meta_properties(path: &Path, printer: &mut Printer<'_>) -> io::Result<bool> {
    small(path, "meta.properties", printer, |bytes| {
        let properties = MetaProperties::parse(bytes, path).map_err(|error| error.to_string())?;
        let id = properties.directory_id.map_or("none".to_string(), |id| id.to_string());
        Ok(vec![
            ("cluster_id", Text(properties.cluster_id)),
            ("node_id", Number(i64::from(properties.node_id))),
            ("directory_id", Text(id)),
        ])
    })
}

/// Shows `quorum-state`.
pub(super) fn quorum_state(path: &Path, printer: &mut Printer<'_>) -> io::Result<bool> {
    small(path, "quorum state", printer, |bytes| {
        let json: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no JSON: {error}"))?;
        let epoch = json.get("leaderEpoch").and_then(serde_json::Value::as_i64);
        let leader = json.get("leaderId").and_then(serde_json::Value::as_i64);
        let (Some(epoch), Some(leader)) = (epoch, leader) else {
            return Err("it has no leaderEpoch and leaderId".to_string());
        };
        let voters = json.get("currentVoters").map_or("none".to_string(), ToString::to_string);
        Ok(vec![("leader_epoch", Number(epoch)), ("leader_id", Number(leader)), ("voters", Text(voters))])
    })
}

/// Shows the marker of a clean stop.
pub(super) fn clean_shutdown(path: &Path, printer: &mut Printer<'_>) -> io::Result<bool> {
    small(path, "clean shutdown marker", printer, |bytes| match parse_clean_shutdown(bytes) {
        Some(epoch) => Ok(vec![("broker_epoch", Number(epoch))]),
        None if bytes.is_empty() => Ok(vec![("broker_epoch", Text("none: of an old release".into()))]),
        None => Err("it is no JSON with a brokerEpoch".into()),
    })
}
