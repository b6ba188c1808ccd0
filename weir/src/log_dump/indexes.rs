//! Offset, time and transaction indexes, each entry held against the log beside it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use weir_storage::offset_index::{OFFSET_ENTRY_BYTES, OffsetPosition};
use weir_storage::time_index::{TIME_ENTRY_BYTES, TimestampOffset};
use weir_storage::transaction_index::{AbortedTxn, TXN_ENTRY_BYTES};

use super::print::Field::{Flag, Number, Text};
use super::print::Printer;
use super::segment::header_at;
use super::{end_list, note_zeros, open};

/// Entries of a fixed size, read one after the other.
struct Entries<const N: usize> {
    source: BufReader<File>,
    length: u64,
    position: u64,
}

enum Next<const N: usize> {
    Entry(u64, [u8; N]),
    /// Nothing but zeros from here on.
    Zeros(u64),
    /// A part of an entry.
    Rest(u64),
    End,
}

impl<const N: usize> Entries<N> {
    fn new(file: File, length: u64) -> Self {
        Entries { source: BufReader::new(file), length, position: 0 }
    }

    fn next(&mut self) -> io::Result<Next<N>> {
        let left = self.length - self.position;
        if left == 0 {
            return Ok(Next::End);
        }
        if left < N as u64 {
            return Ok(Next::Rest(left));
        }
        let mut entry = [0; N];
        self.source.read_exact(&mut entry)?;
        let position = self.position;
        self.position += N as u64;
        // A first entry may be all zeros and mean it; later ones grow.
        if entry == [0; N] && (position > 0 || left > N as u64) && self.rest_is_zeros()? {
            return Ok(Next::Zeros(left));
        }
        Ok(Next::Entry(position, entry))
    }

    /// Whether only zeros follow. Where they do the walk is at its end; where they do not it may go on from here.
    fn rest_is_zeros(&mut self) -> io::Result<bool> {
        use std::os::unix::fs::FileExt;
        let mut window = [0; 16 * 1024];
        let mut position = self.position;
        while position < self.length {
            match self.source.get_ref().read_at(&mut window, position)? {
                0 => break,
                count if window[..count].iter().any(|byte| *byte != 0) => return Ok(false),
                count => position += count as u64,
            }
        }
        Ok(true)
    }
}

/// Walks the entries; `each` shows one and says what is wrong with it.
fn walk<const N: usize>(
    path: &Path,
    kind: &'static str,
    printer: &mut Printer<'_>,
    mut each: impl FnMut(&[u8; N], &mut Printer<'_>) -> io::Result<Option<String>>,
) -> io::Result<()> {
    let Some((file, length)) = open(path, kind, printer)? else { return Ok(()) };
    let mut entries = Entries::<N>::new(file, length);
    let mut count = 0;
    loop {
        match entries.next() {
            Ok(Next::Entry(position, entry)) => {
                count += 1;
                if let Some(reason) = each(&entry, printer)? {
                    printer.damage(position, length - position - N as u64, &reason)?;
                }
            }
            Ok(Next::Zeros(bytes)) => {
                note_zeros(bytes, printer)?;
                break;
            }
            Ok(Next::Rest(bytes)) => {
                let reason = format!("{bytes} bytes at the end are no whole entry of {N} bytes");
                printer.damage(length - bytes, bytes, &reason)?;
                break;
            }
            Ok(Next::End) => break,
            Err(error) => {
                let left = length - entries.position;
                printer.damage(entries.position, left, &format!("cannot be read: {error}"))?;
                break;
            }
        }
    }
    end_list(count, length, printer)
}

/// The log of the same segment, without what marks its file for another fate.
fn log_beside(path: &Path, printer: &mut Printer<'_>) -> io::Result<Option<(File, u64)>> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut parts = name.splitn(3, '.');
    let (stem, _, fate) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let log = path.with_file_name(match fate {
        Some(fate) => format!("{stem}.log.{fate}"),
        None => format!("{stem}.log"),
    });
    match File::open(&log).and_then(|file| file.metadata().map(|metadata| (file, metadata.len()))) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) => {
            let text = format!("entries are not held against the log, it cannot be opened: {error}");
            printer.item("note", 1, &[("text", Text(text))])?;
            Ok(None)
        }
    }
}

/// Shows a `.index`: each entry must name the position and the last offset of a batch.
pub(super) fn offsets(path: &Path, base_offset: i64, printer: &mut Printer<'_>) -> io::Result<()> {
    let mut log = None;
    let mut last: Option<OffsetPosition> = None;
    walk(path, "offset index", printer, |bytes: &[u8; OFFSET_ENTRY_BYTES], printer| {
        if last.is_none() {
            log = log_beside(path, printer)?;
        }
        let entry = OffsetPosition::decode(bytes, base_offset);
        let before = last.replace(entry);
        let reason = match before {
            Some(before) if before.offset >= entry.offset || before.position >= entry.position => {
                Some("it does not lie behind the entry before it".to_string())
            }
            _ if entry.offset < base_offset => Some(format!("its offset lies below {base_offset}")),
            _ => match &log {
                None => None,
                Some((file, _)) => match header_at(file, u64::from(entry.position)) {
                    Err(error) => Some(format!("the log cannot be read there: {error}")),
                    Ok(None) => Some(format!("no batch begins at position {} of the log", entry.position)),
                    Ok(Some(header)) if header.last_offset() != entry.offset => Some(format!(
                        "the batch at position {} ends with offset {}, not {}",
                        entry.position,
                        header.last_offset(),
                        entry.offset
                    )),
                    Ok(Some(_)) => None,
                },
            },
        };
        let fields = [
            ("offset", Number(entry.offset)),
            ("position", Number(i64::from(entry.position))),
            ("ok", Flag(reason.is_none())),
        ];
        printer.item("entry", 1, &fields)?;
        Ok(reason)
    })
}

/// The batches of a log in order, header by header, as far as a time index asks.
struct LogWalk {
    file: File,
    length: u64,
    position: u64,
    /// Largest timestamp of the batches passed.
    max_timestamp: i64,
    /// Last offset and largest timestamp of the batch passed last.
    passed: Option<(i64, i64)>,
}

impl LogWalk {
    /// Goes to the batch that holds `offset` and returns its largest timestamp and that of the batches before it.
    fn find(&mut self, offset: i64) -> io::Result<Option<(i64, i64)>> {
        if let Some((last_offset, timestamp)) = self.passed
            && last_offset >= offset
        {
            return Ok(Some((timestamp, self.max_timestamp)));
        }
        while self.position < self.length {
            let Some(header) = header_at(&self.file, self.position)? else { return Ok(None) };
            if let Some((_, timestamp)) = self.passed {
                self.max_timestamp = self.max_timestamp.max(timestamp);
            }
            self.position += header.size_bytes() as u64;
            self.passed = Some((header.last_offset(), header.max_timestamp));
            if header.last_offset() >= offset {
                let found = header.base_offset <= offset;
                return Ok(found.then_some((header.max_timestamp, self.max_timestamp)));
            }
        }
        Ok(None)
    }
}

/// Shows a `.timeindex`: each entry must name the largest timestamp so far and a batch that has it.
pub(super) fn times(path: &Path, base_offset: i64, printer: &mut Printer<'_>) -> io::Result<()> {
    let mut log: Option<LogWalk> = None;
    let mut last: Option<TimestampOffset> = None;
    walk(path, "time index", printer, |bytes: &[u8; TIME_ENTRY_BYTES], printer| {
        if last.is_none() {
            log = log_beside(path, printer)?.map(|(file, length)| LogWalk {
                file,
                length,
                position: 0,
                max_timestamp: i64::MIN,
                passed: None,
            });
        }
        let entry = TimestampOffset::decode(bytes, base_offset);
        let before = last.replace(entry);
        let reason = match before {
            Some(before) if before.timestamp >= entry.timestamp || before.offset >= entry.offset => {
                Some("it does not lie behind the entry before it".to_string())
            }
            _ if entry.offset < base_offset => Some(format!("its offset lies below {base_offset}")),
            _ => match &mut log {
                None => None,
                Some(log) => match log.find(entry.offset) {
                    Err(error) => Some(format!("the log cannot be read: {error}")),
                    Ok(None) => Some(format!("no batch of the log holds offset {}", entry.offset)),
                    Ok(Some((timestamp, _))) if timestamp != entry.timestamp => Some(format!(
                        "the batch with offset {} has the largest timestamp {timestamp}, not {}",
                        entry.offset, entry.timestamp
                    )),
                    Ok(Some((_, earlier))) if earlier > entry.timestamp => {
                        Some(format!("a batch before offset {} has the timestamp {earlier}", entry.offset))
                    }
                    Ok(Some(_)) => None,
                },
            },
        };
        let fields = [
            ("timestamp", Number(entry.timestamp)),
            ("offset", Number(entry.offset)),
            ("ok", Flag(reason.is_none())),
        ];
        printer.item("entry", 1, &fields)?;
        Ok(reason)
    })
}

/// Shows a `.txnindex`: aborted transactions in the order of their markers.
pub(super) fn transactions(path: &Path, base_offset: i64, printer: &mut Printer<'_>) -> io::Result<()> {
    let mut floor = base_offset.saturating_sub(1);
    walk(path, "transaction index", printer, |bytes: &[u8; TXN_ENTRY_BYTES], printer| {
        let Some(entry) = AbortedTxn::decode(bytes) else {
            return Ok(Some("it has an unknown version".to_string()));
        };
        let impossible =
            entry.last_offset <= floor || entry.first_offset > entry.last_offset || entry.producer_id < 0;
        floor = floor.max(entry.last_offset);
        let fields = [
            ("producer_id", Number(entry.producer_id)),
            ("first_offset", Number(entry.first_offset)),
            ("last_offset", Number(entry.last_offset)),
            ("last_stable_offset", Number(entry.last_stable_offset)),
            ("ok", Flag(!impossible)),
        ];
        printer.item("aborted transaction", 1, &fields)?;
        Ok(impossible.then(|| "its offsets are impossible".to_string()))
    })
}
