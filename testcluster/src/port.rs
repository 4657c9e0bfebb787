//! Addresses for programs that can't be told to find a free one by themselves.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns an address that nobody listens on now, and that no connection is given before a program listens there:
/// the system takes those from 32768 on.
#[must_use]
pub fn free_address() -> SocketAddr {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Somewhere else in each process.
    let first = std::process::id().wrapping_mul(101);
    loop {
        let number = first.wrapping_add(NUMBER.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let port = 10_000 + u16::try_from(number).unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
