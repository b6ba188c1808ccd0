//! Ports for servers that tests start as processes of their own.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Two ports below those that outgoing connections get: one of theirs could be taken before the server listens, even by a
/// connection to itself of whoever waits for it.
pub(crate) fn two_ports() -> (u16, u16) {
    let mut number = RandomState::new().hash_one(0) % 17_000;
    let mut next = || loop {
        number = (number + 1) % 17_000;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, 15_000 + number as u16)) {
            return listener;
        }
    };
    let (a, b) = (next(), next());
    (a.local_addr().unwrap().port(), b.local_addr().unwrap().port())
}
