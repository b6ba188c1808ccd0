//! Where a dump's bytes come from: a plain file, read by position, or gzip of any number of members.
//!
//! What the content is decides, not its name. A gzip file that was inflated once can be read from any place afterwards, for the
//! price of inflating what lies between that and the point before it which was noted. Input is untrusted: damage ends the data at
//! that place and is told by [`Reader::problem`].

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::gzip::{Decoder, GZIP, Point, Points};
use super::pipe::Piped;
use crate::DoctorError;
use crate::language::Text;

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Store {
    File(File),
    Memory(Vec<u8>),
}

impl Store {
    pub(super) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(into, at),
            Self::Memory(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                bytes.get(from..).unwrap_or_default().read(into)
            }
        }
    }
}

/// A dump that can be read more than once.
#[derive(Debug)]
pub struct Origin {
    path: PathBuf,
    file: Arc<Store>,
    stored_bytes: u64,
    gzip: bool,
    inflated: OnceLock<Inflated>,
}

/// What is known of a gzip file once it was inflated to its end.
#[derive(Debug)]
pub(super) struct Inflated {
    points: Vec<Point>,
    members: usize,
    size_bytes: u64,
    problem: Option<Text>,
}

impl Inflated {
    pub(super) fn new(points: Points, size_bytes: u64, problem: Option<Text>) -> Self {
        Self { points: points.list, members: points.members, size_bytes, problem }
    }
}

impl Origin {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, DoctorError> {
        let failed = |error| DoctorError::io(path, error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Self::of(path, Store::File(file), metadata.len()).map_err(failed)
    }

    /// A dump that is in memory already.
    pub fn of_bytes(path: &Path, bytes: Vec<u8>) -> Self {
        let stored_bytes = bytes.len() as u64;
        let failed = |_| Self {
            path: path.to_path_buf(),
            file: Arc::new(Store::Memory(Vec::new())),
            stored_bytes: 0,
            gzip: false,
            inflated: OnceLock::new(),
        };
        Self::of(path, Store::Memory(bytes), stored_bytes).unwrap_or_else(failed)
    }

    fn of(path: &Path, store: Store, stored_bytes: u64) -> io::Result<Self> {
        let mut head = [0; 2];
        let gzip = store.read_at(&mut head, 0)? == 2 && head == GZIP;
        let (path, file) = (path.to_path_buf(), Arc::new(store));
        Ok(Self { path, file, stored_bytes, gzip, inflated: OnceLock::new() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file itself.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Whether the content is gzip.
    pub fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// Bytes of the dump; of gzip only known after a whole first reading.
    pub fn size_bytes(&self) -> Option<u64> {
        if self.gzip { self.inflated.get().map(|known| known.size_bytes) } else { Some(self.stored_bytes) }
    }

    /// Gzip members, once known; 0 for a plain file.
    pub fn members(&self) -> usize {
        self.inflated.get().map_or(0, |known| known.members)
    }

    /// What is wrong with the gzip data, once known.
    pub fn problem(&self) -> Option<&Text> {
        self.inflated.get().and_then(|known| known.problem.as_ref())
    }

    /// Whether several readers at different places cost about as much as one.
    pub fn is_divisible(&self) -> bool {
        !self.gzip || self.inflated.get().is_some_and(|known| known.points.len() > 1)
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.file
    }

    /// What a first reading learned.
    pub(super) fn is_inflated(&self, inflated: Inflated) {
        let _ = self.inflated.set(inflated);
    }

    /// A reader for any place. Of gzip that was not yet inflated to its end, only going forward is cheap.
    pub fn reader(&self) -> Reader<'_> {
        Reader(match self.gzip {
            false => Kind::Plain(&self.file),
            true => Kind::Gzip(Box::new(GzipReader { origin: self, decoder: None })),
        })
    }

    /// A reader from the beginning; gzip is inflated by other threads, and where it can be read from is kept.
    pub fn stream(&self) -> Reader<'_> {
        Reader(match self.gzip {
            false => Kind::Plain(&self.file),
            true => Kind::Piped(Piped::start(self)),
        })
    }
}

/// Reads from one place after the other.
#[derive(Debug)]
pub struct Reader<'a>(Kind<'a>);

#[derive(Debug)]
enum Kind<'a> {
    Plain(&'a Store),
    Gzip(Box<GzipReader<'a>>),
    Piped(Piped<'a>),
}

impl Reader<'_> {
    /// Whether a place further on is reached without reading what lies between.
    pub fn seeks(&self) -> bool {
        matches!(self.0, Kind::Plain(_))
    }

    /// Fills `into` with the bytes from `at` on; fewer only at the end of the data, which damage may have brought forward.
    pub fn fill(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(file) => {
                let mut done = 0;
                while done < into.len() {
                    match file.read_at(&mut into[done..], at + done as u64) {
                        Ok(0) => break,
                        Ok(count) => done += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            }
            Kind::Gzip(reader) => reader.fill(at, into),
            Kind::Piped(reader) => reader.fill(at, into),
        }
    }

    /// Why gzip data ended before its time.
    pub fn problem(&self) -> Option<Text> {
        match &self.0 {
            Kind::Plain(_) => None,
            Kind::Gzip(reader) => reader.decoder.as_ref().and_then(Decoder::problem).cloned(),
            Kind::Piped(reader) => reader.origin().problem().cloned(),
        }
    }
}

/// Reads gzip at any place.
#[derive(Debug)]
struct GzipReader<'a> {
    origin: &'a Origin,
    decoder: Option<Decoder>,
}

impl GzipReader<'_> {
    fn fill(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let first = Point::member(0, 0);
        let points = self.origin.inflated.get().map_or(&[][..], |known| &known.points);
        let after = points.partition_point(|point| point.at <= at);
        let start = points.get(after.saturating_sub(1)).unwrap_or(&first);
        let decoder = self.decoder.get_or_insert_with(|| Decoder::from(&self.origin.file, start, None));
        if decoder.at() > at || decoder.at() < start.at {
            decoder.seek(start);
        }
        while decoder.at() < at {
            if decoder.skip(at - decoder.at())? == 0 {
                return Ok(0);
            }
        }
        let mut done = 0;
        while let Some(room) = into.get_mut(done..).filter(|room| !room.is_empty()) {
            match decoder.read(room)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn content(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * at / 7) as u8).collect()
    }

    fn read_all(mut reader: Reader<'_>) -> (Vec<u8>, Option<String>) {
        let mut all = Vec::new();
        let mut piece = vec![0; 70_001];
        loop {
            let count = reader.fill(all.len() as u64, &mut piece).unwrap();
            all.extend_from_slice(&piece[..count]);
            if count < piece.len() {
                return (all, reader.problem().map(|problem| problem.en));
            }
        }
    }

    #[test]
    fn gzip_of_many_members_reads_like_the_plain_file_at_every_place() {
        let dir = tempfile::tempdir().unwrap();
        let content = content(900_000);
        let plain = dir.path().join("plain");
        std::fs::write(&plain, &content).unwrap();
        let packed = dir.path().join("packed");
        let stored: Vec<u8> = content.chunks(100_000).flat_map(gzip).collect();
        std::fs::write(&packed, stored).unwrap();
        let (plain, packed) = (Origin::open(&plain).unwrap(), Origin::open(&packed).unwrap());
        assert!(!plain.is_gzip() && packed.is_gzip() && !packed.is_divisible());
        assert_eq!(read_all(plain.stream()).0, content);
        assert_eq!(read_all(packed.reader()), (content.clone(), None));
        assert_eq!(packed.size_bytes(), None);
        assert_eq!(read_all(packed.stream()), (content.clone(), None));
        assert_eq!((packed.size_bytes(), packed.members()), (Some(900_000), 9));
        assert!(packed.is_divisible());
        let mut reader = packed.reader();
        for at in [850_000_usize, 0, 99_999, 100_000, 250_000, 240_000, 899_999] {
            let mut piece = vec![0; 1_000];
            let count = reader.fill(at as u64, &mut piece).unwrap();
            assert_eq!(piece[..count], content[at..content.len().min(at + 1_000)], "at {at}");
        }
        assert_eq!(reader.fill(900_000, &mut [0; 10]).unwrap(), 0);
    }

    #[test]
    fn damaged_and_truncated_gzip_ends_at_the_damage_and_says_where() {
        let dir = tempfile::tempdir().unwrap();
        let content = content(300_000);
        let stored: Vec<u8> = content.chunks(100_000).flat_map(gzip).collect();
        let path = dir.path().join("cut");
        std::fs::write(&path, &stored[..stored.len() - 20]).unwrap();
        let (read, problem) = read_all(Origin::open(&path).unwrap().stream());
        assert!(content.starts_with(&read) && read.len() > 200_000, "{}", read.len());
        assert!(problem.unwrap().contains("cut off"));

        let mut damaged = stored.clone();
        let middle = stored.len() / 2;
        damaged[middle] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        let (read, problem) = read_all(Origin::open(&path).unwrap().stream());
        assert!(read.len() < content.len());
        assert!(problem.unwrap().contains("damaged"));

        std::fs::write(&path, [&stored[..], b"trailing"].concat()).unwrap();
        let (read, problem) = read_all(Origin::open(&path).unwrap().stream());
        assert_eq!(read, content);
        assert!(problem.unwrap().contains("not gzip"));
        std::fs::write(&path, [&stored[..], &[0; 512]].concat()).unwrap();
        assert_eq!(read_all(Origin::open(&path).unwrap().stream()), (content, None));
    }

    /// Bytes of which a third is noise.
    fn mixed(size: usize) -> Vec<u8> {
        let mut noise = 0x1234_5678_9abc_def1_u64;
        let mut byte = |at: usize| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            if at.is_multiple_of(3) { noise as u8 } else { (at >> 6) as u8 }
        };
        (0..size).map(&mut byte).collect()
    }

    fn check_everywhere(origin: &Origin, content: &[u8]) {
        let (read, problem) = read_all(origin.stream());
        assert_eq!(problem, None);
        assert!(read == content);
        assert_eq!(origin.size_bytes(), Some(content.len() as u64));
        let mut reader = origin.reader();
        for part in [9, 0, 3, 4, 1, 7, 7, 2] {
            let at = content.len() / 10 * part + 17;
            let mut piece = vec![0; 70_000];
            let count = reader.fill(at as u64, &mut piece).unwrap();
            assert!(piece[..count] == content[at..content.len().min(at + 70_000)], "at {at}");
            assert!(reader.problem().is_none());
        }
    }

    #[test]
    fn a_single_member_is_read_from_places_in_it() {
        let content = mixed(20 << 20);
        let origin = Origin::of_bytes(Path::new("single"), gzip(&content));
        check_everywhere(&origin, &content);
        assert_eq!(origin.members(), 1);
        let points = &origin.inflated.get().unwrap().points;
        assert!((4..=6).contains(&points.len()), "{} points", points.len());
        assert!(origin.is_divisible());
    }

    #[test]
    fn members_are_inflated_side_by_side_whatever_looks_like_one() {
        let mut content = mixed(6 << 20);
        // Members that are stored as they are show these as they are.
        for at in (1_000..content.len() - 20).step_by(50_000) {
            content[at..at + 10].copy_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
        }
        let stored = |bytes: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let packed = content.chunks(300_000).enumerate();
        let packed: Vec<u8> =
            packed.flat_map(|(at, piece)| if at % 2 == 0 { stored(piece) } else { gzip(piece) }).collect();
        let origin = Origin::of_bytes(Path::new("members"), packed.clone());
        check_everywhere(&origin, &content);
        assert_eq!(origin.members(), content.len().div_ceil(300_000));

        // Damage in the middle ends the data there.
        let mut damaged = packed;
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0x55);
        let (read, problem) = read_all(Origin::of_bytes(Path::new("damaged"), damaged).stream());
        assert!(read.len() > 2 << 20 && read.len() < content.len());
        assert!(problem.unwrap().contains("damaged"));
    }

    #[test]
    fn long_members_among_short_ones_are_inflated_in_order() {
        let content = mixed(9 << 20);
        let (short, long) = content.split_at(1 << 20);
        let (long, last) = long.split_at(7 << 20);
        let packed: Vec<u8> =
            short.chunks(100_000).chain([long]).chain(last.chunks(100_000)).flat_map(gzip).collect();
        let origin = Origin::of_bytes(Path::new("long"), packed);
        check_everywhere(&origin, &content);
        assert_eq!(origin.members(), 11 + 1 + 11);
    }

    #[test]
    fn a_pipe_that_is_left_early_ends_its_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packed");
        std::fs::write(&path, gzip(&content(8 << 20))).unwrap();
        let origin = Origin::open(&path).unwrap();
        let mut reader = origin.stream();
        assert_eq!(reader.fill(5, &mut [0; 10]).unwrap(), 10);
        drop(reader);
        assert_eq!(origin.size_bytes(), None);
    }
}
