//! Where a dump's bytes come from: a plain file, read by position, or gzip of any number of members.
//!
//! What the content is decides, not its name. A gzip file that was inflated once is known member by member and can be read
//! from any place afterwards, for the price of inflating at most the member before it; `jcmd GC.heap_dump -gz` writes members
//! of 1 MiB. Input is untrusted: damage ends the data at that place and is told by [`Reader::problem`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use flate2::bufread::GzDecoder;

use crate::DoctorError;
use crate::language::{Text, text};

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What the inflating thread hands over at once.
const BLOCK: usize = 256 << 10;
/// Members that are remembered; later ones are reached by inflating from the last of these.
const MAX_MEMBERS: usize = 1 << 20;

/// Where the bytes are.
#[derive(Debug)]
enum Store {
    File(File),
    Memory(Vec<u8>),
}

impl Store {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
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
struct Inflated {
    members: Vec<Member>,
    size_bytes: u64,
    problem: Option<Text>,
}

/// Where a gzip member begins, in the file and in what it inflates to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    stored_at: u64,
    at: u64,
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
        self.inflated.get().map_or(0, |known| known.members.len())
    }

    /// What is wrong with the gzip data, once known.
    pub fn problem(&self) -> Option<&Text> {
        self.inflated.get().and_then(|known| known.problem.as_ref())
    }

    /// Whether several readers at different places cost about as much as one.
    pub fn is_divisible(&self) -> bool {
        !self.gzip || self.inflated.get().is_some_and(|known| known.members.len() > 1)
    }

    /// A reader for any place. Of gzip that was not yet inflated to its end, only going forward is cheap.
    pub fn reader(&self) -> Reader<'_> {
        Reader(match self.gzip {
            false => Kind::Plain(&self.file),
            true => Kind::Gzip(Box::new(GzipReader { origin: self, decoder: None, at: 0 })),
        })
    }

    /// A reader from the beginning; gzip is inflated by a thread of its own, and what it learns of members is kept.
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
            Kind::Gzip(reader) => reader.decoder.as_ref().and_then(|decoder| decoder.problem.clone()),
            Kind::Piped(reader) => reader.origin.problem().cloned(),
        }
    }
}

/// A file from a place on, as `Read`.
#[derive(Debug)]
struct From {
    file: Arc<Store>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Counts what is taken from a buffered reader, and so knows where a gzip member ends.
#[derive(Debug)]
struct Counted {
    inner: BufReader<From>,
    at: u64,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.at += count as u64;
        self.inner.consume(count);
    }
}

/// Inflates member after member. Damage is the end of the data.
#[derive(Debug)]
struct Members {
    decoder: Option<GzDecoder<Counted>>,
    /// Bytes inflated, from the beginning of the dump.
    at: u64,
    begun: Vec<Member>,
    problem: Option<Text>,
}

impl Members {
    fn from(file: &Arc<Store>, member: Member) -> Self {
        let from = From { file: Arc::clone(file), at: member.stored_at };
        let counted = Counted { inner: BufReader::with_capacity(128 << 10, from), at: member.stored_at };
        Self { decoder: Some(GzDecoder::new(counted)), at: member.at, begun: vec![member], problem: None }
    }

    /// Up to `into.len()` bytes, 0 at the end.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(decoder) = &mut self.decoder else { return Ok(0) };
            match decoder.read(into) {
                Ok(0) if into.is_empty() => return Ok(0),
                Ok(0) => self.next_member()?,
                Ok(count) => {
                    self.at += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
                    let stored_at = decoder.get_ref().at;
                    let what = match error.kind() {
                        UnexpectedEof => text!("the gzip data is cut off", "gzip 数据被截断"),
                        InvalidData | InvalidInput => {
                            text!("the gzip data is damaged ({error})", "gzip 数据已损坏（{error}）")
                        }
                        _ => return Err(error),
                    };
                    self.problem = Some(text!(
                        "{what} near byte {stored_at} of the file, after {inflated} inflated bytes",
                        "{what}：在文件第 {stored_at} 字节附近，已解压 {inflated} 字节",
                        inflated = self.at;
                        what
                    ));
                    self.decoder = None;
                }
            }
        }
    }

    fn next_member(&mut self) -> io::Result<()> {
        let Some(decoder) = self.decoder.take() else { return Ok(()) };
        let mut rest = decoder.into_inner();
        let stored_at = rest.at;
        let head = rest.fill_buf()?;
        // One byte at the end of the buffer may be the first of two: the decoder itself will say if it is none.
        let begins = match head.len() {
            0 => return Ok(()),
            1 => head.first() == GZIP.first(),
            _ => head.starts_with(&GZIP),
        };
        if !begins {
            if head.iter().any(|byte| *byte != 0) {
                self.problem = Some(text!(
                    "what follows the gzip data at byte {stored_at} is not gzip",
                    "第 {stored_at} 字节处 gzip 数据之后的内容不是 gzip"
                ));
            }
            return Ok(());
        }
        if self.begun.len() < MAX_MEMBERS {
            self.begun.push(Member { stored_at, at: self.at });
        }
        self.decoder = Some(GzDecoder::new(rest));
        Ok(())
    }
}

/// Reads gzip at any place.
#[derive(Debug)]
struct GzipReader<'a> {
    origin: &'a Origin,
    decoder: Option<Members>,
    at: u64,
}

impl GzipReader<'_> {
    fn fill(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let start = match self.origin.inflated.get() {
            Some(known) => {
                let after = known.members.partition_point(|member| member.at <= at);
                known.members.get(after.saturating_sub(1)).copied()
            }
            None => None,
        }
        .unwrap_or(Member { stored_at: 0, at: 0 });
        let decoder = match &mut self.decoder {
            Some(decoder) if self.at <= at && start.at <= self.at => decoder,
            slot => {
                self.at = start.at;
                slot.insert(Members::from(&self.origin.file, start))
            }
        };
        let mut scratch = [0; 16 << 10];
        while self.at < at {
            let most = scratch.len().min(usize::try_from(at - self.at).unwrap_or(usize::MAX));
            match decoder.read(&mut scratch[..most])? {
                0 => return Ok(0),
                count => self.at += count as u64,
            }
        }
        let mut done = 0;
        while done < into.len() {
            match decoder.read(&mut into[done..])? {
                0 => break,
                count => done += count,
            }
        }
        self.at += done as u64;
        Ok(done)
    }
}

/// Gzip from the beginning, inflated by another thread.
#[derive(Debug)]
struct Piped<'a> {
    origin: &'a Origin,
    full: Option<Receiver<Block>>,
    empty: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    block: Vec<u8>,
    used: usize,
    at: u64,
}

#[derive(Debug)]
enum Block {
    Bytes(Vec<u8>),
    End(Inflated),
    Failed(io::Error),
}

impl<'a> Piped<'a> {
    fn start(origin: &'a Origin) -> Self {
        let (full_sender, full) = sync_channel(4);
        let (empty, empty_receiver) = sync_channel::<Vec<u8>>(8);
        let file = Arc::clone(&origin.file);
        let thread = std::thread::spawn(move || inflate(&file, &full_sender, &empty_receiver));
        Self {
            origin,
            full: Some(full),
            empty: Some(empty),
            thread: Some(thread),
            block: Vec::new(),
            used: 0,
            at: 0,
        }
    }

    fn next_block(&mut self) -> io::Result<bool> {
        let done = std::mem::take(&mut self.block);
        self.used = 0;
        let Some(full) = &self.full else { return Ok(false) };
        if let Some(empty) = &self.empty
            && done.capacity() > 0
        {
            // No room means that enough blocks go round.
            let _ = empty.try_send(done);
        }
        match full.recv() {
            Ok(Block::Bytes(block)) => {
                self.block = block;
                Ok(true)
            }
            Ok(Block::End(inflated)) => {
                self.full = None;
                let _ = self.origin.inflated.set(inflated);
                Ok(false)
            }
            Ok(Block::Failed(error)) => {
                self.full = None;
                Err(error)
            }
            Err(_) => Err(io::Error::other("the inflating thread ended")),
        }
    }

    fn fill(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        debug_assert!(at >= self.at, "a pipe goes forward");
        let mut done = 0;
        loop {
            let rest = &self.block[self.used..];
            if rest.is_empty() {
                if done == into.len() && self.at >= at {
                    return Ok(done);
                }
                if !self.next_block()? {
                    return Ok(done);
                }
                continue;
            }
            if self.at < at {
                let most = rest.len().min(usize::try_from(at - self.at).unwrap_or(usize::MAX));
                self.used += most;
                self.at += most as u64;
                continue;
            }
            let most = rest.len().min(into.len() - done);
            if most == 0 {
                return Ok(done);
            }
            into[done..done + most].copy_from_slice(&rest[..most]);
            self.used += most;
            self.at += most as u64;
            done += most;
        }
    }
}

impl Drop for Piped<'_> {
    fn drop(&mut self) {
        // Closed channels end the thread.
        self.full = None;
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn inflate(file: &Arc<Store>, full: &SyncSender<Block>, empty: &Receiver<Vec<u8>>) {
    let mut members = Members::from(file, Member { stored_at: 0, at: 0 });
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        block.resize(BLOCK, 0);
        let mut filled = 0;
        while filled < BLOCK {
            match members.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => {
                    let _ = full.send(Block::Failed(error));
                    return;
                }
            }
        }
        block.truncate(filled);
        if !block.is_empty() && full.send(Block::Bytes(block)).is_err() {
            return;
        }
        if filled < BLOCK {
            let Members { begun, at, problem, .. } = members;
            let _ = full.send(Block::End(Inflated { members: begun, size_bytes: at, problem }));
            return;
        }
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
