//! A gzip file from its beginning, inflated by other threads than the one that reads.
//!
//! Members can be inflated side by side, but where one begins is only known when the one before was inflated. What looks like the
//! beginning of a member is taken for one in advance; it counts when the member before ends there, and is thrown away otherwise.
//! Long members, damage and whatever else does not fit are left to one thread that inflates in order.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::gzip::{Decoder, GZIP, Point, Points, Stored, member};
use super::inflate::{Inflater, SLACK};
use super::source::{Inflated, Origin, Store};

/// What the inflating thread hands over at once.
const BLOCK: usize = 256 << 10;
/// The longest member that is inflated in advance; `jcmd` writes members of 1 MiB.
const MAX_MEMBER: usize = 2 << 20;
/// How far the next beginning of a member is looked for.
const MAX_STORED: u64 = 4 << 20;
/// Smaller files are inflated in order.
const MIN_STORED: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Piped<'a> {
    origin: &'a Origin,
    source: Source,
    block: Vec<u8>,
    used: usize,
    length: usize,
    at: u64,
}

#[derive(Debug)]
enum Source {
    Members(Box<Members>),
    InOrder(InOrder),
    Over,
}

impl<'a> Piped<'a> {
    pub(super) fn start(origin: &'a Origin) -> Self {
        let file = origin.store();
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
        let source = if threads > 1 && origin.stored_bytes() >= MIN_STORED {
            Source::Members(Box::new(Members::start(file, origin.stored_bytes(), threads)))
        } else {
            Source::InOrder(InOrder::start(file, Point::member(0, 0), Points::new()))
        };
        Self { origin, source, block: Vec::new(), used: 0, length: 0, at: 0 }
    }

    fn next_block(&mut self) -> io::Result<bool> {
        let done = std::mem::take(&mut self.block);
        (self.used, self.length) = (0, 0);
        loop {
            match &mut self.source {
                Source::Over => return Ok(false),
                Source::Members(members) => match members.next(self.at) {
                    Next::Bytes(bytes, length) => {
                        members.give_back(done);
                        (self.block, self.length) = (bytes, length);
                        return Ok(true);
                    }
                    Next::End => {
                        let points = std::mem::replace(&mut members.points, Points::new());
                        self.source = Source::Over;
                        self.origin.is_inflated(Inflated::new(points, self.at, None));
                        return Ok(false);
                    }
                    Next::Unfit => {
                        let point = Point::member(members.expected, self.at);
                        let points = std::mem::replace(&mut members.points, Points::new());
                        self.source = Source::InOrder(InOrder::start(self.origin.store(), point, points));
                    }
                },
                Source::InOrder(pipe) => match pipe.next(done) {
                    Ok(Block::Bytes(block)) => {
                        (self.length, self.block) = (block.len(), block);
                        return Ok(true);
                    }
                    Ok(Block::End(inflated)) => {
                        self.source = Source::Over;
                        self.origin.is_inflated(inflated);
                        return Ok(false);
                    }
                    Ok(Block::Failed(error)) | Err(error) => {
                        self.source = Source::Over;
                        return Err(error);
                    }
                },
            }
        }
    }

    pub(super) fn fill(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        debug_assert!(at >= self.at, "a pipe goes forward");
        let mut done = 0;
        loop {
            let rest = self.block.get(self.used..self.length).unwrap_or_default();
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

    pub(super) fn origin(&self) -> &Origin {
        self.origin
    }
}

/// One thread that inflates in order.
#[derive(Debug)]
struct InOrder {
    full: Option<Receiver<Block>>,
    empty: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Block {
    Bytes(Vec<u8>),
    End(Inflated),
    Failed(io::Error),
}

impl InOrder {
    fn start(file: &Arc<Store>, point: Point, points: Points) -> Self {
        let (full_sender, full) = sync_channel(4);
        let (empty, empty_receiver) = sync_channel::<Vec<u8>>(8);
        let file = Arc::clone(file);
        let thread =
            std::thread::spawn(move || inflate(&file, &point, points, &full_sender, &empty_receiver));
        Self { full: Some(full), empty: Some(empty), thread: Some(thread) }
    }

    fn next(&mut self, done: Vec<u8>) -> io::Result<Block> {
        if let Some(empty) = &self.empty
            && done.capacity() > 0
        {
            // No room means that enough blocks go round.
            let _ = empty.try_send(done);
        }
        let received = self.full.as_ref().and_then(|full| full.recv().ok());
        received.ok_or_else(|| io::Error::other("the inflating thread ended"))
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        // Closed channels end the thread.
        self.full = None;
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn inflate(
    file: &Arc<Store>,
    point: &Point,
    points: Points,
    full: &SyncSender<Block>,
    empty: &Receiver<Vec<u8>>,
) {
    let mut decoder = Decoder::from(file, point, Some(points));
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        block.resize(BLOCK, 0);
        let mut filled = 0;
        let ended = loop {
            match decoder.read(&mut block[filled..]) {
                Ok(0) => break true,
                Ok(count) => {
                    filled += count;
                    if filled == block.len() {
                        break false;
                    }
                }
                Err(error) => {
                    let _ = full.send(Block::Failed(error));
                    return;
                }
            }
        };
        block.truncate(filled);
        if filled > 0 && full.send(Block::Bytes(block)).is_err() {
            return;
        }
        if ended {
            let (points, at, problem) = decoder.into_parts();
            let inflated = Inflated::new(points.unwrap_or_else(Points::new), at, problem);
            let _ = full.send(Block::End(inflated));
            return;
        }
    }
}

/// Threads that inflate members side by side.
#[derive(Debug)]
struct Members {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Where the next member must begin.
    expected: u64,
    number: u64,
    points: Points,
}

enum Next {
    Bytes(Vec<u8>, usize),
    End,
    /// What comes next is not for this.
    Unfit,
}

#[derive(Debug)]
struct Shared {
    file: Arc<Store>,
    stored_bytes: u64,
    ahead: u64,
    state: Mutex<State>,
    /// Something was inflated, or nothing more will be.
    ready: Condvar,
    /// More may be inflated.
    room: Condvar,
}

/// A member: its bytes, how many of them, where it ends in the file.
type Whole = (Vec<u8>, usize, u64);

#[derive(Debug, Default)]
struct State {
    /// What looks like a beginning and nobody has taken; none behind the last.
    next: Option<u64>,
    claimed: u64,
    taken: u64,
    /// By number: where it begins, and what it is.
    done: BTreeMap<u64, (u64, Option<Whole>)>,
    spare: Vec<Vec<u8>>,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What looks like the beginning of a member behind `at`.
    fn beginning_behind(&self, at: u64, window: &mut Vec<u8>) -> Option<u64> {
        window.resize(64 << 10, 0);
        // No member is shorter.
        let mut place = at + 18;
        let end = place.saturating_add(MAX_STORED).min(self.stored_bytes);
        while place < end {
            let count = self.file.read_at(window, place).ok().filter(|count| *count >= 4)?;
            let bytes = window.get(..count)?;
            let begins = |four: &[u8]| four.starts_with(&GZIP) && four[2] == 8 && four[3] & 0xe0 == 0;
            let mut from = 0;
            while let Some(found) = bytes.get(from..count - 3)?.iter().position(|byte| *byte == GZIP[0]) {
                if bytes.get(from + found..from + found + 4).is_some_and(begins) {
                    return Some(place + (from + found) as u64);
                }
                from += found + 1;
            }
            place += (count - 3) as u64;
        }
        None
    }

    fn work(&self) {
        let mut window = Vec::new();
        let mut inflater = Inflater::new();
        let mut stored = Stored::from(&self.file, 0);
        loop {
            let mut state = self.lock();
            while !state.stop && state.next.is_some() && state.claimed >= state.taken + self.ahead {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(at) = state.next.filter(|_| !state.stop) else { return };
            let number = state.claimed;
            state.claimed += 1;
            state.next = self.beginning_behind(at, &mut window);
            let mut out = state.spare.pop().unwrap_or_default();
            drop(state);
            if out.is_empty() {
                out.resize(MAX_MEMBER / 2 + SLACK + 1, 0);
            }
            // What cannot be read now is read again in order, and told then. A panic is our fault; whoever waits for this member
            // must not wait for ever.
            let found = catch_unwind(AssertUnwindSafe(|| {
                member(&mut stored, &mut inflater, at, &mut out, MAX_MEMBER).ok().flatten()
            }));
            let found = found.ok().flatten().map(|(length, end)| (out, length, end));
            self.lock().done.insert(number, (at, found));
            self.ready.notify_all();
        }
    }
}

impl Members {
    fn start(file: &Arc<Store>, stored_bytes: u64, threads: usize) -> Self {
        let shared = Arc::new(Shared {
            file: Arc::clone(file),
            stored_bytes,
            ahead: threads as u64 + 2,
            state: Mutex::new(State { next: Some(0), ..State::default() }),
            ready: Condvar::new(),
            room: Condvar::new(),
        });
        let work = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work())
        };
        let threads = (0..threads).map(work).collect();
        Self { shared, threads, expected: 0, number: 0, points: Points::new() }
    }

    /// The next member. `at`: where it begins in what all inflates to.
    fn next(&mut self, at: u64) -> Next {
        loop {
            let mut state = self.shared.lock();
            let found = loop {
                if let Some(found) = state.done.remove(&self.number) {
                    break Some(found);
                }
                if state.next.is_none() && self.number >= state.claimed {
                    break None;
                }
                if self.threads.iter().all(JoinHandle::is_finished) {
                    // A thread that panicked: in order it will be told.
                    return Next::Unfit;
                }
                let wait = std::time::Duration::from_millis(100);
                state = self.shared.ready.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            };
            let Some((begins, found)) = found else {
                return if self.expected == self.shared.stored_bytes { Next::End } else { Next::Unfit };
            };
            self.number += 1;
            state.taken = self.number;
            drop(state);
            self.shared.room.notify_all();
            if begins < self.expected {
                // It lies in a member, and only looked like one.
                if let Some((bytes, ..)) = found {
                    self.give_back(bytes);
                }
                continue;
            }
            let Some((bytes, length, end)) = found.filter(|_| begins == self.expected) else {
                return Next::Unfit;
            };
            self.points.member(begins, at);
            self.expected = end;
            return Next::Bytes(bytes, length);
        }
    }

    fn give_back(&mut self, bytes: Vec<u8>) {
        let mut state = self.shared.lock();
        if !bytes.is_empty() && state.spare.len() < self.threads.len() {
            state.spare.push(bytes);
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
