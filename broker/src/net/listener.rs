//! Accepts connections, within the limits, and starts a task for each.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use weir_metadata::properties::{Key, keys};

use crate::broker::Broker;
use crate::connection;

/// How long to rest after the system refused to accept, for example because descriptors ran out.
const REST: Duration = Duration::from_millis(100);

/// Socket options that apply to each connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketOptions {
    /// `socket.listen.backlog.size`.
    pub(crate) backlog: i32,
    /// `socket.send.buffer.bytes`; -1 leaves it to the system.
    pub(crate) send_buffer_bytes: i32,
    /// `socket.receive.buffer.bytes`; -1 leaves it to the system.
    pub(crate) receive_buffer_bytes: i32,
}

/// Binds `host`, an address or name; empty for all interfaces, those of both families where the machine has both.
pub(crate) async fn bind(host: &str, port: u16, options: SocketOptions) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = match host {
        "" if has_ipv6() => vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))],
        "" => vec![SocketAddr::from(([0, 0, 0, 0], port))],
        host => lookup_host((host, port)).await?.collect(),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in addresses {
        match bind_address(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether a socket can listen on IPv6 here: the kernel may lack it, or have it switched off.
fn has_ipv6() -> bool {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_only_v6(false).and_then(|()| socket.bind(&any.into())))
        .is_ok()
}

fn bind_address(address: SocketAddr, options: SocketOptions) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Inherited by accepted sockets; it must be set before the window is negotiated.
    if options.receive_buffer_bytes > 0 {
        socket.set_recv_buffer_size(options.receive_buffer_bytes as usize)?;
    }
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Whatever the system's default is, as Java does.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    TcpListener::from_std(socket.into())
}

/// Accepts until the task is ended.
pub(crate) async fn accept_all(
    broker: Arc<Broker>,
    listener: TcpListener,
    index: usize,
    options: SocketOptions,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A client of the older family on a socket of both.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                while let Some(pause) = broker.registry.pause(Instant::now()) {
                    // Those behind it wait in the kernel.
                    note_rate(&broker, peer);
                    tokio::time::sleep(pause).await;
                }
                accept(&broker, stream, peer, index, options);
            }
            Err(error) => {
                if let Some(unsaid) = broker.complaints.allow() {
                    tracing::error!(listener = broker.listener_name(index), unsaid, "cannot accept: {error}");
                }
                broker.metrics.refused_connection();
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn note_rate(broker: &Broker, peer: SocketAddr) {
    const RATE: Key<i32> = keys::MAX_CONNECTION_CREATION_RATE;
    let rate = broker.config.load().get(RATE);
    let what = format_args!("{peer} waits: {rate} connections were accepted in this second");
    broker.limit_reached(RATE.name, &what);
}

fn accept(broker: &Arc<Broker>, stream: TcpStream, peer: SocketAddr, index: usize, options: SocketOptions) {
    let registered = match broker.registry.register(peer, index) {
        Ok(registered) => registered,
        Err(refused) => {
            broker.metrics.refused_connection();
            broker.limit_reached(refused.property(), &format_args!("refused {peer}: {refused}"));
            return;
        }
    };
    // Options that the system does not grant cost speed, not correctness.
    let _ = stream.set_nodelay(true);
    if options.send_buffer_bytes > 0 {
        let _ = SockRef::from(&stream).set_send_buffer_size(options.send_buffer_bytes as usize);
    }
    broker.metrics.accepted_connection();
    let id = registered.state.id;
    let task = broker.executor.spawn(connection::serve(Arc::clone(broker), registered, stream));
    broker.registry.runs(id, task);
}
