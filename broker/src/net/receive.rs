//! Receives from one connection without ever holding more than was leased.
//!
//! Method: while nothing is there the connection owns no buffer at all. When bytes come, they are read into a window
//! if the `window` budget has one at this moment, else into a small buffer of its own that the plan counts
//! per connection. Before the connection waits for its peer again, what is left of a window is put into the small
//! buffer and the window goes back, so windows are held by running code only and never waited for. What does not
//! fit into the small buffer belongs to a batch or a control frame and is read straight into its leased memory; a
//! connection whose batches are larger than a window takes none. A read that leaves room has drained the socket, which
//! is not asked again before it has told of more.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop;
use weir_budget::{Budget, Chunk, ChunkChain, ChunkPool, Holder, Lease};

use super::registry::ConnectionState;

/// Size of the small buffer in bytes: frames up to this size never wait for memory.
pub(crate) const SMALL_BYTES: usize = 1024;

/// Size of a read window in bytes: what a producer of small records sends within its linger fits in one, and is then
/// appended from where it was read.
pub(crate) const WINDOW_BYTES: usize = 64 * 1024;

/// How often a peer that has sent something more is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Most bytes asked of the socket in one read: a whole batch of the usual largest size, since every read of a part
/// sends its own window update.
const READ_WINDOW_BYTES: usize = 1024 * 1024;

/// Why nothing more can be received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The peer closed; `mid_frame` when it owed bytes.
    #[error("the peer closed the connection")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug)]
enum Storage {
    None,
    Small(Box<[u8; SMALL_BYTES]>),
    // The chunk is declared before its lease, so it is back in the pool before its bytes are free.
    Window(Chunk, #[expect(dead_code, reason = "held for its drop")] Lease),
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::None => &[],
            Storage::Small(small) => &small[..],
            Storage::Window(chunk, _) => chunk,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Storage::None => &mut [],
            Storage::Small(small) => &mut small[..],
            Storage::Window(chunk, _) => chunk,
        }
    }
}

/// The receiving half of a connection and its buffer.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The socket; the sender uses it too, never at the same time.
    pub(crate) stream: Arc<TcpStream>,
    /// What the reaper sees of this connection.
    pub(crate) state: Arc<ConnectionState>,
    windows: Budget,
    // Of windows.
    pool: ChunkPool,
    storage: Storage,
    start: usize,
    end: usize,
    // The last batch was larger than a window: the next one's header is all that should be read into a buffer.
    batches_are_large: bool,
}

impl Receiver {
    /// Receives from `stream`; windows come from `windows` and `pool`, whose chunks are of [`WINDOW_BYTES`].
    pub(crate) fn new(
        stream: TcpStream,
        state: Arc<ConnectionState>,
        windows: Budget,
        pool: ChunkPool,
    ) -> Self {
        let stream = Arc::new(stream);
        state.reads_from(&stream);
        let storage = Storage::None;
        Receiver { stream, state, windows, pool, storage, start: 0, end: 0, batches_are_large: false }
    }

    /// Bytes received and not yet consumed.
    pub(crate) fn available(&self) -> &[u8] {
        &self.storage.bytes()[self.start..self.end]
    }

    /// Drops the first `count` available bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Waits until at least `count` bytes are available. `count` must not exceed [`SMALL_BYTES`]. Cancel-safe.
    pub(crate) async fn ensure(&mut self, count: usize) -> Result<(), ReceiveError> {
        debug_assert!(count <= SMALL_BYTES);
        let missing = count.saturating_sub(self.end - self.start);
        if missing > 0 {
            let mut awaited = self.state.awaits(missing);
            while self.end - self.start < count {
                let before = self.end - self.start;
                self.fill().await?;
                awaited.read(self.end - self.start - before);
            }
        }
        Ok(())
    }

    /// Reads at least one more byte into the buffer.
    async fn fill(&mut self) -> Result<(), ReceiveError> {
        loop {
            // A peer that sends without a pause must not keep the others from running. The turn is given up here and
            // not inside of a poll, which would look like a socket without data that is readable all the same.
            if !coop::has_budget_remaining() {
                self.put_window_back();
                tokio::task::yield_now().await;
            }
            coop::consume_budget().await;
            self.make_room();
            let Receiver { stream, storage, end, .. } = self;
            let free = &mut storage.bytes_mut()[*end..];
            match try_read(stream, free.len(), || {
                Ok(rustix::net::recv(&**stream, free, RecvFlags::empty())?.0)
            }) {
                Ok(0) => return Err(ReceiveError::Closed),
                Ok(count) => {
                    *end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.put_window_back();
                    self.stream.readable().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Puts a buffer with free space in place: a window if there is one now, else the small one.
    fn make_room(&mut self) {
        let pending = self.end - self.start;
        if let Storage::None | Storage::Small(_) = self.storage
            && !self.batches_are_large
            && let Some((mut chunk, lease)) = self.spare_window()
        {
            chunk[..pending].copy_from_slice(self.available());
            self.storage = Storage::Window(chunk, lease);
            (self.start, self.end) = (0, pending);
        }
        if let Storage::None = self.storage {
            self.storage = Storage::Small(Box::new([0; SMALL_BYTES]));
        }
        let (start, end) = (self.start, self.end);
        let bytes = self.storage.bytes_mut();
        if end == bytes.len() {
            bytes.copy_within(start..end, 0);
            (self.start, self.end) = (0, end - start);
        }
    }

    /// Before a wait: keeps what is left in the small buffer, or no buffer at all.
    fn put_window_back(&mut self) {
        let pending = self.end - self.start;
        if pending == 0 {
            self.storage = Storage::None;
        } else if matches!(self.storage, Storage::Window(..)) && pending <= SMALL_BYTES {
            let mut small = Box::new([0; SMALL_BYTES]);
            small[..pending].copy_from_slice(self.available());
            self.storage = Storage::Small(small);
        } else {
            return;
        }
        (self.start, self.end) = (0, pending);
    }

    /// Returns when the peer has closed; a little later where it has sent something more before that. Reads nothing.
    /// Cancel-safe.
    pub(crate) async fn peer_gone(&self) {
        let mut byte = [0; 1];
        if self.available().is_empty() && !matches!(self.stream.peek(&mut byte).await, Ok(1..)) {
            return self.unless_given_up().await;
        }
        // The socket is readable for as long as that lies there: the end behind it is looked for now and then.
        while self.stream.ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_read_closed()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.unless_given_up().await
    }

    /// Waits for ever where the end of what can be read is our own doing.
    async fn unless_given_up(&self) {
        if self.state.is_given_up() {
            std::future::pending().await
        }
    }

    /// Notes the size of a batch, which the next one's will be like.
    pub(crate) fn note_batch(&mut self, bytes: usize) {
        self.batches_are_large = bytes > WINDOW_BYTES - SMALL_BYTES;
    }

    /// Gives the window back if it holds nothing; called before a request waits for something else than the peer.
    pub(crate) fn release_if_empty(&mut self) {
        if self.start == self.end {
            self.storage = Storage::None;
        }
    }

    /// Fills `chain` completely: first from the buffer, then straight from the socket. `on_bytes` sees the length
    /// after each portion. Not cancel-safe: a cancelled read loses the chain, so the connection must end.
    pub(crate) async fn read_chain(
        &mut self,
        chain: &mut ChunkChain,
        mut on_bytes: impl FnMut(&ChunkChain),
    ) -> Result<(), ReceiveError> {
        let taken = chain.extend(self.available());
        self.consume(taken);
        if taken > 0 {
            on_bytes(chain);
        }
        let mut awaited = self.state.awaits(chain.missing());
        while chain.missing() > 0 {
            self.put_window_back();
            let stream = &self.stream;
            let before = chain.len();
            let read = chain.fill_with(READ_WINDOW_BYTES, |slices| {
                let room = slices.iter().map(|slice| slice.len()).sum();
                try_read(stream, room, || Ok(rustix::io::readv(&**stream, slices)?))
            });
            match read {
                Ok(0) => return Err(ReceiveError::Closed),
                Ok(_) => {
                    awaited.came(chain.len() - before);
                    on_bytes(chain);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the next `count` bytes are all here, in the buffer or in the socket.
    pub(crate) fn has_arrived(&self, count: usize) -> bool {
        let missing = count.saturating_sub(self.end - self.start) as u64;
        rustix::io::ioctl_fionread(&*self.stream).is_ok_and(|unread| unread >= missing)
    }

    /// A window, if there is one now. The chunk goes back before the lease.
    pub(crate) fn spare_window(&self) -> Option<(Chunk, Lease)> {
        let lease = self.windows.try_lease(WINDOW_BYTES as u64, Holder::new("window", self.state.id)).ok()?;
        Some((self.pool.take(), lease))
    }

    /// Appends exactly `count` bytes to `out`, whose memory the caller leased; it grows as the bytes arrive.
    pub(crate) async fn read_into(&mut self, out: &mut Vec<u8>, count: usize) -> Result<(), ReceiveError> {
        let target = out.len() + count;
        let mut awaited = self.state.awaits(count);
        while out.len() < target {
            if self.start == self.end {
                self.fill().await?;
            }
            let part = (target - out.len()).min(self.end - self.start);
            if out.capacity() - out.len() < part {
                let grown = (out.capacity() * 2).clamp(out.len() + part, target);
                out.reserve_exact(grown - out.len());
            }
            out.extend_from_slice(&self.storage.bytes()[self.start..self.start + part]);
            self.consume(part);
            awaited.came(part);
        }
        Ok(())
    }

    /// Reads past `count` bytes, holding none of them.
    pub(crate) async fn skip(&mut self, mut count: usize) -> Result<(), ReceiveError> {
        let mut awaited = self.state.awaits(count);
        while count > 0 {
            if self.start == self.end {
                self.fill().await?;
            }
            let part = count.min(self.end - self.start);
            self.consume(part);
            count -= part;
            awaited.came(part);
        }
        Ok(())
    }
}

/// Reads with `read`, which has room for `room` bytes. Fewer are all that there was: tokio then takes the socket for
/// unreadable until it tells of more, as if it had been asked and had nothing.
fn try_read(stream: &TcpStream, room: usize, read: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    let mut drained = None;
    let outcome = stream.try_io(Interest::READABLE, || match read()? {
        count if (1..room).contains(&count) => {
            drained = Some(count);
            Err(io::ErrorKind::WouldBlock.into())
        }
        count => Ok(count),
    });
    drained.map_or(outcome, Ok)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    use weir_budget::CHUNK_BYTES;

    use super::*;
    use crate::net::registry::{ConnectionLimits, Holding, Registry};

    #[test]
    fn a_peer_that_sends_without_a_pause_is_read_to_its_end_and_leaves_turns_to_others() {
        let (done, turns) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            done.send(runtime.block_on(read_a_lot())).unwrap();
        });
        // A reader that never ends its poll would stop a timer of its own runtime, too.
        let turns = turns.recv_timeout(Duration::from_secs(60)).expect("the reader did not come to an end");
        // 1024 windows, and tokio has the reader yield after 128 reads at most; none where it is not asked.
        assert!(turns >= 6, "the other task had {turns} turns");
    }

    /// A connection of this process: the peer's end, and the receiver.
    async fn connected() -> (std::net::TcpStream, Receiver) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nodelay(true).unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let limits = ConnectionLimits { in_all: 1, per_address: 1, ..ConnectionLimits::default() };
        let registered = Registry::new(limits).register(address, 0).unwrap();
        let windows = Budget::root("windows", 16 * WINDOW_BYTES as u64);
        (peer, Receiver::new(stream, Arc::clone(&registered.state), windows, ChunkPool::of(WINDOW_BYTES)))
    }

    #[tokio::test]
    async fn a_window_takes_what_has_come_and_a_connection_of_large_batches_takes_no_window() {
        const REQUEST: usize = 40_000;
        let (mut peer, mut receiver) = connected().await;
        for (batch, most) in [(REQUEST, REQUEST), (WINDOW_BYTES, SMALL_BYTES), (REQUEST, REQUEST)] {
            receiver.note_batch(batch);
            peer.write_all(&[7; REQUEST]).unwrap();
            wait_for_unread(&receiver.stream, REQUEST as u64);
            receiver.ensure(1).await.unwrap();
            assert_eq!(receiver.available().len(), most);
            assert_eq!(receiver.windows.used() > 0, most > SMALL_BYTES);
            receiver.skip(REQUEST).await.unwrap();
            receiver.release_if_empty();
            assert_eq!(receiver.windows.used(), 0);
        }
    }

    async fn is_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    /// Until so many bytes lie unread in the receiver's socket, as in that of a connection without a turn.
    pub(crate) fn wait_for_unread(receiver_socket: &TcpStream, bytes: u64) {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while rustix::io::ioctl_fionread(receiver_socket).unwrap() != bytes {
            assert!(std::time::Instant::now() < deadline, "{bytes} bytes do not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the reader run until it has read what has come.
    async fn read_what_came<F: Future>(socket: &TcpStream, mut reading: std::pin::Pin<&mut F>) {
        while rustix::io::ioctl_fionread(socket).unwrap() > 0 {
            assert!(is_pending(reading.as_mut()).await);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(is_pending(reading).await);
    }

    /// A moment on the connection's clock, after all that was.
    fn moment(state: &ConnectionState) -> u64 {
        std::thread::sleep(Duration::from_millis(3));
        state.now_ms()
    }

    /// A connection that holds the memory of a batch of `body` bytes.
    struct Receiving {
        peer: std::net::TcpStream,
        receiver: Receiver,
        chain: ChunkChain,
    }

    impl Receiving {
        async fn begin(body: usize) -> Receiving {
            let (peer, receiver) = connected().await;
            let lease = Budget::root("receive", 1 << 20)
                .try_lease(ChunkChain::lease_bytes(body), Holder::new("batch", 1))
                .unwrap();
            Receiving { peer, receiver, chain: ChunkChain::new(&ChunkPool::new(), lease, body) }
        }
    }

    #[tokio::test]
    async fn what_has_arrived_and_is_not_read_yet_is_the_peers_progress() {
        const BODY: usize = 2 * CHUNK_BYTES + 10;
        let Receiving { mut peer, mut receiver, mut chain } = Receiving::begin(BODY).await;
        let (state, socket) = (Arc::clone(&receiver.state), Arc::clone(&receiver.stream));
        // Whether there was no progress since a moment.
        let stalled_since = |moment: u64| state.is_stalled(&[true], moment, 1);
        let _owes_progress = state.holds(Holding::Receive);
        let began = state.now_ms();
        let mut reading = Box::pin(receiver.read_chain(&mut chain, |_| ()));
        assert!(is_pending(reading.as_mut()).await);
        assert!(!state.is_stalled(&[true], began, 1), "it holds the memory since this moment");
        let then = moment(&state);
        assert!(stalled_since(then), "nothing has come");
        assert!(!state.is_stalled(&[false], then, 1), "nobody waits for what it holds");
        peer.write_all(&[1; 100]).unwrap();
        wait_for_unread(&socket, 100);
        assert!(stalled_since(then), "a few bytes are no progress, read or not");
        peer.write_all(&vec![1; CHUNK_BYTES - 100]).unwrap();
        wait_for_unread(&socket, CHUNK_BYTES as u64);
        assert!(!stalled_since(then), "a chunk lies in the socket");
        let then = moment(&state);
        read_what_came(&socket, reading.as_mut()).await;
        assert!(!stalled_since(then), "it was read");
        let then = moment(&state);
        assert!(stalled_since(then), "it was read, and nothing has come since");
        // One that sends a byte at a time, each of which is read at once.
        for _ in 0..10 {
            peer.write_all(&[1]).unwrap();
            wait_for_unread(&socket, 1);
            read_what_came(&socket, reading.as_mut()).await;
            assert!(stalled_since(then), "a dribble is no progress");
        }
        peer.write_all(&[1; CHUNK_BYTES]).unwrap();
        wait_for_unread(&socket, CHUNK_BYTES as u64);
        assert!(!stalled_since(then), "the rest lies in the socket");
        reading.await.unwrap();
        assert_eq!(chain.len(), BODY);
        assert!(!stalled_since(moment(&state)), "all has come: what is done with it is not up to the peer");
    }

    #[tokio::test]
    async fn what_is_passed_over_is_progress_by_the_chunk_too() {
        let (mut peer, mut receiver) = connected().await;
        let (state, socket) = (Arc::clone(&receiver.state), Arc::clone(&receiver.stream));
        let _owes_progress = state.holds(Holding::Stream);
        let then = moment(&state);
        let mut skipping = Box::pin(receiver.skip(1 << 20));
        for _ in 0..40 {
            peer.write_all(&[1]).unwrap();
            wait_for_unread(&socket, 1);
            read_what_came(&socket, skipping.as_mut()).await;
        }
        let waited_for = [false, false, false, true];
        assert!(state.is_stalled(&waited_for, then, 1), "bytes one at a time hold memory for ever");
        assert!(!state.is_stalled(&[true, true, true, false], then, 1), "nobody waits for what it holds");
    }

    #[tokio::test]
    async fn bytes_that_cross_the_decision_to_give_their_peer_up_are_read() {
        const BODY: usize = CHUNK_BYTES + 10;
        for first in [0, 1, BODY - 1] {
            let Receiving { mut peer, mut receiver, mut chain } = Receiving::begin(BODY).await;
            let (state, socket) = (Arc::clone(&receiver.state), Arc::clone(&receiver.stream));
            let _owes_progress = state.holds(Holding::Receive);
            let mut reading = Box::pin(receiver.read_chain(&mut chain, |_| ()));
            peer.write_all(&vec![1; first]).unwrap();
            wait_for_unread(&socket, first as u64);
            read_what_came(&socket, reading.as_mut()).await;
            assert!(state.give_up());
            peer.write_all(&vec![1; BODY - first]).unwrap();
            wait_for_unread(&socket, (BODY - first) as u64);
            reading.await.unwrap();
            assert_eq!(chain.len(), BODY);
            // The peer takes its answer, and then hears that this was all.
            socket.writable().await.unwrap();
            assert_eq!(socket.try_write(b"answer").unwrap(), 6);
            assert!(!state.give_up(), "it waits for nothing");
            assert!(matches!(receiver.ensure(4).await, Err(ReceiveError::Closed)));
            drop((receiver, socket));
            let mut answer = Vec::new();
            std::io::Read::read_to_end(&mut peer, &mut answer).unwrap();
            assert_eq!(answer, b"answer");
        }
    }

    #[tokio::test]
    async fn a_peer_that_is_given_up_and_sends_no_whole_request_is_read_no_further() {
        const BODY: usize = CHUNK_BYTES + 10;
        let Receiving { mut peer, mut receiver, mut chain } = Receiving::begin(BODY).await;
        let (state, socket) = (Arc::clone(&receiver.state), Arc::clone(&receiver.stream));
        let mut reading = Box::pin(receiver.read_chain(&mut chain, |_| ()));
        assert!(is_pending(reading.as_mut()).await);
        assert!(state.give_up());
        peer.write_all(&vec![1; BODY - 1]).unwrap();
        wait_for_unread(&socket, BODY as u64 - 1);
        let limit = tokio::time::timeout(Duration::from_secs(60), reading);
        assert!(matches!(
            limit.await.expect("it waits for a peer that was given up"),
            Err(ReceiveError::Closed)
        ));
    }

    #[tokio::test]
    async fn the_end_of_reading_is_not_taken_for_the_end_of_the_peer() {
        let (peer, receiver) = connected().await;
        let awaited = receiver.state.awaits(4);
        assert!(receiver.state.give_up());
        drop(awaited);
        let mut gone = Box::pin(receiver.peer_gone());
        receiver.stream.ready(Interest::READABLE).await.unwrap();
        assert!(is_pending(gone.as_mut()).await, "a request that is in hand would lose its answer");
        drop(peer);
    }

    /// Reads past 64 MiB while another task counts its turns.
    async fn read_a_lot() -> u64 {
        const BYTES: usize = 64 << 20;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sender = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(&vec![7; BYTES]).unwrap();
            stream
        });
        let (stream, peer) = listener.accept().await.unwrap();
        let limits = ConnectionLimits { in_all: 1, per_address: 1, ..ConnectionLimits::default() };
        let registered = Registry::new(limits).register(peer, 0).unwrap();
        let windows = Budget::root("windows", 16 * WINDOW_BYTES as u64);
        let mut receiver = Receiver::new(
            stream,
            Arc::clone(&registered.state),
            windows.clone(),
            ChunkPool::of(WINDOW_BYTES),
        );
        // Enough lies in the socket's buffer that one poll could go on for very long.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while rustix::io::ioctl_fionread(&*receiver.stream).unwrap() < 64 << 10 {
            assert!(std::time::Instant::now() < deadline, "nothing comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        receiver.skip(BYTES).await.unwrap();
        other.abort();
        drop(sender.join().unwrap());
        assert!(matches!(receiver.ensure(1).await, Err(ReceiveError::Closed)));
        drop(receiver);
        assert_eq!(windows.used(), 0);
        turns.load(Ordering::Relaxed)
    }
}
