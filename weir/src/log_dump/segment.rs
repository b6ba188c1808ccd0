//! Segments and metadata snapshots: batches one after the other, with their CRC, and the records in them.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read};
use std::path::Path;

use weir_protocol::records::{
    BatchError, BatchHeader, Crc32c, HEADER_SIZE_BYTES, InflateLimits, LOG_OVERHEAD_BYTES, MAGIC_POSITION,
    RecordCursor, Scratch, TimestampType,
};

use super::print::Field::{Bytes, Flag, Hex, Number, Text};
use super::print::Printer;
use super::records::{self, Content};
use super::{MAX_BATCH_BYTES, MAX_RECORD_BYTES, Options, RecordsAs, directory_name, note_zeros, open};

const WINDOW_BYTES: usize = 64 * 1024;
/// The CRC of a batch covers everything from here on.
const CRC_START: usize = 21;
/// The smallest message of magic 0, behind its offset and size.
const MIN_OLD_MESSAGE_BYTES: u64 = 14;

/// What the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A segment of a log.
    Segment {
        /// The offset in its name.
        base_offset: i64,
    },
    /// A snapshot of the metadata; its records are always shown, they are what it is.
    Snapshot,
}

/// Shows a segment or snapshot.
pub(super) fn dump(path: &Path, kind: Kind, options: &Options, printer: &mut Printer<'_>) -> io::Result<()> {
    let directory = directory_name(path);
    let content = match (options.records_as, kind) {
        (RecordsAs::Plain, _) => Content::Plain,
        (RecordsAs::Metadata, _) | (RecordsAs::Auto, Kind::Snapshot) => Content::Metadata,
        (RecordsAs::Offsets, _) => Content::Offsets,
        (RecordsAs::Auto, _) if directory.starts_with("__cluster_metadata-") => Content::Metadata,
        (RecordsAs::Auto, _) if directory.starts_with("__consumer_offsets-") => Content::Offsets,
        (RecordsAs::Auto, _) => Content::Plain,
    };
    let (name, deep) = match kind {
        Kind::Segment { .. } => ("segment", options.deep),
        Kind::Snapshot => ("metadata snapshot", true),
    };
    let Some((file, length)) = open(path, name, printer)? else { return Ok(()) };
    let mut walk = Walk {
        source: BufReader::with_capacity(WINDOW_BYTES, file),
        length,
        position: 0,
        deep,
        content,
        next_offset: match kind {
            Kind::Segment { base_offset } => base_offset,
            Kind::Snapshot => 0,
        },
        batches: 0,
        records: 0,
        body: Vec::new(),
        scratch: Scratch::new(1 << 20),
    };
    walk.run(printer)?;
    printer.end(&[
        ("batches", Number(walk.batches)),
        ("records", Number(walk.records)),
        ("next_offset", Number(walk.next_offset)),
        ("bytes", Number(length as i64)),
    ])
}

struct Walk {
    source: BufReader<File>,
    /// Bytes of the file when it was opened; what a running broker appends meanwhile is not looked at.
    length: u64,
    position: u64,
    deep: bool,
    content: Content,
    next_offset: i64,
    batches: i64,
    records: i64,
    body: Vec<u8>,
    scratch: Scratch,
}

/// Why the walk cannot go on.
enum Stop {
    /// The disk refused at this position.
    Unreadable(io::Error),
    /// Writing the output failed.
    Output(io::Error),
}

impl Walk {
    fn run(&mut self, printer: &mut Printer<'_>) -> io::Result<()> {
        while self.position < self.length {
            match self.next(printer) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Stop::Output(error)) => return Err(error),
                Err(Stop::Unreadable(error)) => {
                    return printer.damage(self.position, self.left(), &format!("cannot be read: {error}"));
                }
            }
        }
        Ok(())
    }

    fn left(&self) -> u64 {
        self.length - self.position
    }

    /// One batch; false when nothing behind it can be read.
    fn next(&mut self, printer: &mut Printer<'_>) -> Result<bool, Stop> {
        let position = self.position;
        let left = self.left();
        let mut head = [0; HEADER_SIZE_BYTES];
        let available = usize::try_from(left).unwrap_or(usize::MAX).min(HEADER_SIZE_BYTES);
        let head = &mut head[..available];
        self.source.read_exact(head).map_err(Stop::Unreadable)?;
        let damage = |printer: &mut Printer<'_>, reason: String| {
            printer.damage(position, left, &reason).map_err(Stop::Output)
        };
        if head.iter().all(|byte| *byte == 0) {
            if self.only_zeros(left - available as u64)? {
                note_zeros(left, printer).map_err(Stop::Output)?;
            } else {
                damage(printer, "zeros where a batch should begin".into())?;
            }
            return Ok(false);
        }
        let Some(magic) = head.get(MAGIC_POSITION).map(|byte| *byte as i8) else {
            damage(printer, format!("{left} bytes are left, fewer than a batch header takes"))?;
            return Ok(false);
        };
        if matches!(magic, 0 | 1) {
            return self.old_message(head.to_vec(), magic, printer);
        }
        let header = match BatchHeader::parse_prefix(head) {
            None => {
                damage(printer, format!("{left} bytes are left, fewer than a batch header takes"))?;
                return Ok(false);
            }
            Some(Err(error)) => {
                damage(printer, format!("no batch begins here: {error}"))?;
                return Ok(false);
            }
            Some(Ok(header)) => header,
        };
        let size = header.size_bytes() as u64;
        if size > left {
            damage(printer, format!("the batch claims {size} bytes and {left} are left"))?;
            return Ok(false);
        }
        let body_bytes = size - HEADER_SIZE_BYTES as u64;
        let mut crc = Crc32c::new();
        crc.update(&head[CRC_START..]);
        let shows_records = self.deep && body_bytes <= MAX_BATCH_BYTES;
        self.read_body(body_bytes, shows_records, &mut crc).map_err(Stop::Unreadable)?;
        self.position += size;
        self.batches += 1;
        self.records += i64::from(header.record_count.max(0));
        let crc_is_right = crc.value() == header.crc;
        self.show(position, &header, crc_is_right, printer).map_err(Stop::Output)?;
        let after = self.left();
        let mut fault = |reason: String| printer.damage(position, after, &reason).map_err(Stop::Output);
        if !crc_is_right {
            fault(format!("the CRC of the batch is {:08x}, it claims {:08x}", crc.value(), header.crc))?;
        }
        if header.base_offset < self.next_offset {
            fault(format!(
                "base offset {} lies below {}, where the batch before it or the file's name ends",
                header.base_offset, self.next_offset
            ))?;
        }
        if header.last_offset_delta < 0 || header.last_offset() < header.base_offset {
            fault(format!("last offset delta {} is impossible", header.last_offset_delta))?;
        }
        self.next_offset = self.next_offset.max(header.last_offset().saturating_add(1));
        if shows_records && crc_is_right {
            self.show_records(position, &header, printer)?;
        } else if self.deep && !shows_records {
            let text = format!("records of a batch of more than {MAX_BATCH_BYTES} bytes are not shown");
            printer.item("note", 2, &[("text", Text(text))]).map_err(Stop::Output)?;
        }
        Ok(true)
    }

    /// Reads past a body with its CRC; keeps it in `self.body` where `keep` is set. It grows as the bytes come.
    fn read_body(&mut self, bytes: u64, keep: bool, crc: &mut Crc32c) -> io::Result<()> {
        self.body.clear();
        // One exceptional batch should not be paid for until the end of the file.
        self.body.shrink_to(4 << 20);
        let mut left = bytes;
        let mut window = [0; 16 * 1024];
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(window.len());
            let part = &mut window[..part];
            self.source.read_exact(part)?;
            crc.update(part);
            if keep {
                self.body.extend_from_slice(part);
            }
            left -= part.len() as u64;
        }
        Ok(())
    }

    fn only_zeros(&mut self, mut left: u64) -> Result<bool, Stop> {
        let mut window = [0; 16 * 1024];
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(window.len());
            self.source.read_exact(&mut window[..part]).map_err(Stop::Unreadable)?;
            if window[..part].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            left -= part as u64;
        }
        Ok(true)
    }

    fn show(
        &self,
        position: u64,
        header: &BatchHeader,
        crc_is_right: bool,
        printer: &mut Printer<'_>,
    ) -> io::Result<()> {
        let codec = match header.compression() {
            Ok(codec) => codec.name().to_string(),
            Err(error) => error.to_string(),
        };
        let timestamp_type = match header.timestamp_type() {
            TimestampType::CreateTime => "CreateTime",
            TimestampType::LogAppendTime => "LogAppendTime",
        };
        printer.item(
            "batch",
            1,
            &[
                ("base_offset", Number(header.base_offset)),
                ("last_offset", Number(header.last_offset())),
                ("count", Number(i64::from(header.record_count))),
                ("base_sequence", Number(i64::from(header.base_sequence))),
                ("producer_id", Number(header.producer_id)),
                ("producer_epoch", Number(i64::from(header.producer_epoch))),
                ("leader_epoch", Number(i64::from(header.partition_leader_epoch))),
                ("transactional", Flag(header.is_transactional())),
                ("control", Flag(header.is_control())),
                ("position", Number(position as i64)),
                ("size", Number(header.size_bytes() as i64)),
                ("timestamp_type", Text(timestamp_type.into())),
                ("base_timestamp", Number(header.base_timestamp)),
                ("max_timestamp", Number(header.max_timestamp)),
                ("codec", Text(codec)),
                ("crc", Hex(header.crc)),
                ("crc_ok", Flag(crc_is_right)),
            ],
        )
    }

    fn show_records(
        &mut self,
        position: u64,
        header: &BatchHeader,
        printer: &mut Printer<'_>,
    ) -> Result<(), Stop> {
        let after = self.left();
        let body = [IoSlice::new(&self.body)];
        let limits = InflateLimits::default();
        let damage = |printer: &mut Printer<'_>, error: BatchError| {
            let result = match error {
                BatchError::RecordTooLarge { size_bytes, .. } => {
                    let text = format!(
                        "a record of {size_bytes} bytes, and what follows in its batch, is not shown"
                    );
                    printer.item("note", 2, &[("text", Text(text))])
                }
                error => printer.damage(position, after, &format!("records of the batch: {error}")),
            };
            result.map_err(Stop::Output)
        };
        let cursor = RecordCursor::new(header, &body, MAX_RECORD_BYTES, &limits, &mut self.scratch);
        let mut cursor = match cursor {
            Ok(cursor) => cursor,
            Err(error) => return damage(printer, error),
        };
        loop {
            match cursor.next_record() {
                Ok(None) => return Ok(()),
                Err(error) => return damage(printer, error),
                Ok(Some(record)) => {
                    let mut fields = vec![
                        ("offset", Number(record.offset)),
                        ("timestamp", Number(record.timestamp)),
                        ("sequence", Number(i64::from(record.sequence))),
                    ];
                    match records::describe(self.content, header.is_control(), &record) {
                        Ok(None) => {
                            fields.extend([("key", Bytes(record.key)), ("value", Bytes(record.value))])
                        }
                        Ok(Some((kind, text))) => {
                            fields.extend([("kind", Text(kind)), ("record", Text(text))])
                        }
                        Err(reason) => {
                            fields.extend([("key", Bytes(record.key)), ("value", Bytes(record.value))]);
                            let reason = format!("record at offset {}: {reason}", record.offset);
                            printer.damage(position, after, &reason).map_err(Stop::Output)?;
                        }
                    }
                    printer.item("record", 2, &fields).map_err(Stop::Output)?;
                    for entry in record.headers {
                        let fields = [("key", Bytes(Some(entry.key))), ("value", Bytes(entry.value))];
                        printer.item("header", 3, &fields).map_err(Stop::Output)?;
                    }
                }
            }
        }
    }

    /// A message of magic 0 or 1, from before Kafka 0.11: its offset and size; its CRC is not looked at.
    fn old_message(&mut self, head: Vec<u8>, magic: i8, printer: &mut Printer<'_>) -> Result<bool, Stop> {
        let position = self.position;
        let left = self.left();
        let offset = head.first_chunk().map_or(-1, |bytes| i64::from_be_bytes(*bytes));
        let length = head
            .get(8..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(-1, |bytes| i32::from_be_bytes(*bytes));
        let size = u64::try_from(length).ok().filter(|length| *length >= MIN_OLD_MESSAGE_BYTES);
        let Some(size) = size.map(|length| length + LOG_OVERHEAD_BYTES as u64).filter(|size| *size <= left)
        else {
            let reason = format!("a message of magic {magic} claims {length} bytes and {left} are left");
            printer.damage(position, left, &reason).map_err(Stop::Output)?;
            return Ok(false);
        };
        let rest = size as i64 - head.len() as i64;
        self.source.seek_relative(rest).map_err(Stop::Unreadable)?;
        self.position += size;
        self.batches += 1;
        self.next_offset = self.next_offset.max(offset.saturating_add(1));
        let fields = [
            ("offset", Number(offset)),
            ("magic", Number(i64::from(magic))),
            ("position", Number(position as i64)),
            ("size", Number(size as i64)),
        ];
        printer.item("message", 1, &fields).map_err(Stop::Output)?;
        Ok(true)
    }
}

/// The header of the batch that begins at `position` of a segment. `None` when none can begin there.
pub(super) fn header_at(file: &File, position: u64) -> io::Result<Option<BatchHeader>> {
    use std::os::unix::fs::FileExt;
    let mut head = [0; HEADER_SIZE_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], position + filled as u64)? {
            0 => return Ok(None),
            count => filled += count,
        }
    }
    Ok(BatchHeader::parse(&head).ok())
}
