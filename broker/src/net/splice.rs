//! From a socket into a file without a copy in this process: `splice` into a pipe and out of it again.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::net::TcpStream;

/// What a pipe should take at once: a whole batch of the usual largest size. Where the system allows less, a batch goes
/// in several steps.
const PIPE_BYTES: usize = 1024 * 1024;

thread_local! {
    /// The pipe of this thread while it is not in use.
    static IDLE: Cell<Option<Pipe>> = const { Cell::new(None) };
}

/// An empty pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// Why bytes did not get from a socket into a file.
#[derive(Debug)]
pub(crate) enum SpliceError {
    /// The socket failed, or has less than it said.
    Socket(io::Error),
    /// The file failed.
    File(io::Error),
}

impl Pipe {
    /// The pipe of this thread, or a new one.
    ///
    /// # Errors
    /// When there are no descriptors.
    pub(crate) fn take() -> io::Result<Self> {
        if let Some(pipe) = IDLE.take() {
            return Ok(pipe);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // What a user may have of it is limited, and a pipe works without.
        let _ = fcntl_setpipe_size(&writer, PIPE_BYTES);
        Ok(Pipe { reader, writer })
    }

    /// Moves the next `count` bytes of `socket`, which have arrived, to `file` from `position` on; through `window` where it
    /// must be. Adds to `taken` what is no longer in the socket: all of it is in the file, unless there is an error.
    ///
    /// # Errors
    /// What failed. The pipe may be left with bytes in it then, and is closed.
    pub(crate) fn move_to_file(
        self,
        socket: &TcpStream,
        file: &File,
        mut position: u64,
        count: usize,
        window: &mut [u8],
        taken: &mut usize,
    ) -> Result<(), SpliceError> {
        let mut left = count;
        while left > 0 {
            let into = || splice(socket, None, &self.writer, None, left, SpliceFlags::NONBLOCK);
            let mut inside = match retry(into).map_err(SpliceError::Socket)? {
                0 => return Err(SpliceError::Socket(io::ErrorKind::UnexpectedEof.into())),
                bytes => bytes,
            };
            *taken += inside;
            left -= inside;
            while inside > 0 {
                let out_of =
                    || splice(&self.reader, None, file, Some(&mut position), inside, SpliceFlags::empty());
                let moved = match retry(out_of) {
                    // A file system that does not splice.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        self.copy_to_file(file, &mut position, inside, window)
                    }
                    other => other,
                };
                match moved.map_err(SpliceError::File)? {
                    0 => return Err(SpliceError::File(io::ErrorKind::WriteZero.into())),
                    bytes => inside -= bytes,
                }
            }
        }
        IDLE.set(Some(self));
        Ok(())
    }

    /// Writes some of the `inside` bytes of the pipe to `file` and moves `position` behind them; how many.
    fn copy_to_file(
        &self,
        file: &File,
        position: &mut u64,
        inside: usize,
        window: &mut [u8],
    ) -> io::Result<usize> {
        let most = inside.min(window.len());
        let count = retry(|| rustix::io::read(&self.reader, &mut window[..most]))?;
        file.write_all_at(&window[..count], *position)?;
        *position += count as u64;
        Ok(count)
    }
}

fn retry(mut call: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;
    use crate::net::receive::tests::wait_for_unread;

    #[tokio::test]
    async fn a_file_that_takes_no_splice_gets_the_bytes_all_the_same() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let bytes: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
        peer.write_all(&bytes).unwrap();
        wait_for_unread(&socket, bytes.len() as u64);
        let dir = tempfile::tempdir().unwrap();
        // One that is only appended to refuses splice.
        let mut file =
            File::options().read(true).append(true).create(true).open(dir.path().join("f")).unwrap();
        let mut taken = 0;
        let pipe = Pipe::take().unwrap();
        pipe.move_to_file(&socket, &file, 0, bytes.len(), &mut [0; 300], &mut taken).unwrap();
        assert_eq!(taken, bytes.len());
        let mut written = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut written).unwrap();
        assert!(written == bytes);
    }
}
