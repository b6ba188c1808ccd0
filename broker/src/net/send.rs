//! Sends replies: bytes in one write, and file ranges by `sendfile`, in bounded windows.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::registry::ConnectionState;

/// Most bytes of a file handed to one `sendfile` call.
const SEND_WINDOW_BYTES: usize = 512 * 1024;

/// Sends as much of `bytes` as the socket takes without a wait.
pub(crate) fn try_send(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.try_io(Interest::WRITABLE, || Ok(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL)?)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        sent => sent,
    }
}

/// Sends all of `bytes`. With `more` the kernel holds back a last short packet, since a file range follows.
/// Not cancel-safe: a cancelled send leaves half a reply on the wire, so the connection must end.
pub(crate) async fn send_bytes(
    stream: &TcpStream,
    state: &ConnectionState,
    mut bytes: &[u8],
    more: bool,
) -> io::Result<()> {
    let flags = if more { SendFlags::MORE | SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL };
    while !bytes.is_empty() {
        let sent = stream.try_io(Interest::WRITABLE, || Ok(rustix::net::send(stream, bytes, flags)?));
        match sent {
            Ok(count) => {
                bytes = &bytes[count..];
                state.progressed_if_holding();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends `length` bytes of `file` from `position` on without copying them into this process.
/// Fails with `UnexpectedEof` when the file is shorter. Not cancel-safe, like [`send_bytes`].
pub(crate) async fn send_file(
    stream: &TcpStream,
    state: &ConnectionState,
    file: BorrowedFd<'_>,
    position: u64,
    length: u64,
) -> io::Result<()> {
    let mut offset = position;
    let end = position + length;
    while offset < end {
        let window = (end - offset).min(SEND_WINDOW_BYTES as u64) as usize;
        let sent = stream.try_io(Interest::WRITABLE, || {
            Ok(rustix::fs::sendfile(stream.as_fd(), file, Some(&mut offset), window)?)
        });
        match sent {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                state.progressed_if_holding();
                tokio::task::coop::consume_budget().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
