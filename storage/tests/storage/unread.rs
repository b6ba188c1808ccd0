//! Bodies that are checked in the log: they read back as others do, and of one that is refused nothing stays.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use weir_protocol::records::BatchHeader;
use weir_storage::disk::Op;
use weir_storage::faults::{EIO, ENOSPC};
use weir_storage::{AppendInfo, AppendOptions, AppendOrigin, Log, StorageError, UnreadBody, UnreadBodyError};

use crate::common::{Batch, Home, NOW, read_all};

/// A body that is written in two pieces, and what it says then.
struct Body<'a> {
    bytes: &'a [u8],
    header: Option<BatchHeader>,
    refusal: Option<UnreadBodyError>,
    written: bool,
}

impl<'a> Body<'a> {
    fn of(batch: &'a Batch) -> Self {
        Body { bytes: &batch.body, header: None, refusal: None, written: false }
    }

    fn append(&mut self, log: &Log, header: &BatchHeader) -> Result<AppendInfo, StorageError> {
        let options = AppendOptions { leader_epoch: 0, origin: AppendOrigin::Client, now_ms: NOW };
        log.append_unread(header, self, &options)
    }
}

impl UnreadBody for Body<'_> {
    fn write_to(
        &mut self,
        file: &File,
        position: u64,
        header: &mut BatchHeader,
    ) -> Result<(), UnreadBodyError> {
        self.written = true;
        let (first, second) = self.bytes.split_at(self.bytes.len() / 2);
        file.write_all_at(second, position + first.len() as u64).map_err(UnreadBodyError::File)?;
        file.write_all_at(first, position).map_err(UnreadBodyError::File)?;
        if let Some(right) = self.header {
            (header.max_timestamp, header.crc) = (right.max_timestamp, right.crc);
        }
        self.refusal.take().map_or(Ok(()), Err)
    }
}

#[test]
fn it_reads_back_as_one_from_memory_with_the_header_as_the_body_set_it() {
    let home = Home::default();
    let log = home.open(false);
    let mut expected = Vec::new();
    for n in 0..20 {
        let batch = Batch::new(3, 100 * (n + 1), NOW + 10 * n as i64);
        let mut claimed = batch.header;
        if n % 3 == 0 {
            claimed.max_timestamp += 1000;
        }
        let info = if n % 2 == 0 {
            let mut body = Body { header: Some(batch.header), ..Body::of(&batch) };
            body.append(&log, &claimed).unwrap()
        } else {
            batch.append(&log).unwrap()
        };
        assert_eq!((info.first_offset, info.last_offset), (3 * n as i64, 3 * n as i64 + 2));
        expected.extend(batch.stored(info.first_offset, 0));
        assert_eq!(read_all(&log, 0).unwrap(), expected);
    }
    drop(log);
    assert_eq!(read_all(&home.open(false), 0).unwrap(), expected);
}

#[test]
fn one_that_is_refused_leaves_nothing_and_the_log_takes_the_next() {
    for cut_fails in [false, true] {
        let home = Home::default();
        let log = home.open(false);
        let (first, refused) = (Batch::new(2, 100, NOW), Batch::new(9, 5000, NOW));
        first.append(&log).unwrap();
        if cut_fails {
            home.faults.fail(&[Op::SetLength], ".log", EIO, 0);
        }
        let mut body = Body { refusal: Some(UnreadBodyError::Refused), ..Body::of(&refused) };
        let error = body.append(&log, &refused.header).unwrap_err();
        assert!(matches!(error, StorageError::BodyRefused { .. }) && !error.is_disk_failure(), "{error}");
        assert!(body.written && !log.is_read_only(), "it is the client's fault");
        assert_eq!(read_all(&log, 0).unwrap(), first.stored(0, 0));
        home.faults.lift();
        let info = first.append(&log).unwrap();
        assert_eq!(info.first_offset, 2);
        let expected = [first.stored(0, 0), first.stored(2, 0)].concat();
        assert_eq!(std::fs::read(home.file(0, ".log")).unwrap(), expected);
    }
}

#[test]
fn a_file_that_fails_under_it_makes_the_log_read_only_until_it_works() {
    let home = Home::default();
    let log = home.open(false);
    let batch = Batch::new(2, 1000, NOW);
    let failed = UnreadBodyError::File(io::Error::from_raw_os_error(ENOSPC));
    let mut body = Body { refusal: Some(failed), ..Body::of(&batch) };
    assert!(body.append(&log, &batch.header).unwrap_err().is_disk_failure());
    assert!(log.is_read_only());
    assert!(log.probe(NOW));
    home.faults.fail(&[Op::Write], ".log", ENOSPC, 0);
    let mut body = Body::of(&batch);
    assert!(body.append(&log, &batch.header).unwrap_err().is_disk_failure());
    assert!(!body.written, "the disk was known to fail");
    home.faults.lift();
    assert_eq!(Body::of(&batch).append(&log, &batch.header).unwrap().first_offset, 0);
    assert_eq!(read_all(&log, 0).unwrap(), batch.stored(0, 0));
}

#[test]
fn a_duplicate_is_not_asked_for_its_body() {
    let home = Home::default();
    let log = home.open(false);
    let batch = Batch::idempotent(3, 7, 0, 0);
    Body::of(&batch).append(&log, &batch.header).unwrap();
    let mut again = Body::of(&batch);
    let info = again.append(&log, &batch.header).unwrap();
    assert!(info.duplicate && !again.written);
    let mut later = Body::of(&batch);
    let gap = Batch::idempotent(3, 7, 0, 9);
    let error = later.append(&log, &gap.header).unwrap_err();
    assert!(matches!(error, StorageError::OutOfOrderSequence { .. }) && !later.written, "{error}");
}

#[test]
fn a_crash_before_its_header_leaves_no_batch() {
    let home = Home::default();
    let log = home.open(false);
    let (first, last) = (Batch::new(2, 100, NOW), Batch::new(3, 3000, NOW));
    first.append(&log).unwrap();
    // The change of the disk that comes after the body is the header; the second time the torn end is cut off first.
    for (change, through) in [(1, 0), (2, 30)] {
        home.faults.crash_at(change, through);
        Body::of(&last).append(&log, &last.header).unwrap_err();
        assert!(home.faults.has_crashed());
        let left = std::fs::metadata(home.file(0, ".log")).unwrap().len();
        assert!(left > first.stored(0, 0).len() as u64, "the body is there");
        home.faults.lift();
    }
    drop(log);
    let log = home.open(false);
    assert_eq!(log.log_end_offset().get(), 2);
    assert_eq!(read_all(&log, 0).unwrap(), first.stored(0, 0));
    assert_eq!(std::fs::read(home.file(0, ".log")).unwrap(), first.stored(0, 0));
}
