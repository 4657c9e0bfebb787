//! Free addresses for programs that can't choose a free port themselves.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns an address without a listener, which the system does not use for outgoing connections: it takes their ports
/// from 32768 on.
#[must_use]
pub fn free_address() -> SocketAddr {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // A different start in each process.
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
