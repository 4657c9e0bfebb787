//! An HTTP proxy in the node through which containerd reaches public registries (`up --public-registries`): the node has
//! no external network.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result};
use testcluster::node::Node;

use super::forward::{accept, pump};

/// Its port on the node's 127.0.0.1.
pub(crate) const PORT: u16 = 17510;

/// Listens in the node, and connects from the host: through the host's own proxy if it has one.
pub(super) fn start(node: &Node) -> Result<()> {
    let listener = node
        .in_network(|| TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)))
        .and_then(|bound| bound)
        .context("failed to listen in the node")?;
    let upstream = ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .and_then(|url| address(&url));
    accept(listener, move |stream| match &upstream {
        Some(address) => {
            pump(&stream, &TcpStream::connect(address)?);
            Ok(())
        }
        None => connect(&stream),
    });
    Ok(())
}

/// Returns the host and the port of a proxy's URL. One with a password is not used.
fn address(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://")?.trim_end_matches('/');
    (!rest.contains(['@', '/'])).then(|| {
        if rest.contains(':') {
            rest.to_owned()
        } else {
            format!("{rest}:80")
        }
    })
}

/// Answers a CONNECT request.
fn connect(stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some("CONNECT"), Some(target)) = (words.next(), words.next()) else {
        return (&*stream).write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
    };
    let mut header = String::new();
    while reader.read_line(&mut header)? > 0 && !header.trim_end().is_empty() {
        header.clear();
    }
    match TcpStream::connect(target) {
        Ok(other) => {
            (&*stream).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            pump(stream, &other);
            Ok(())
        }
        Err(_) => (&*stream).write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_read_from_the_url_of_a_proxy() {
        assert_eq!(address("http://proxy:3128/").as_deref(), Some("proxy:3128"));
        assert_eq!(address("http://proxy").as_deref(), Some("proxy:80"));
        assert_eq!(address("http://user:pass@proxy:3128"), None);
        assert_eq!(address("socks5://proxy:1080"), None);
    }
}
