//! HTTP requests for probes and pages, without a client library.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// A request over a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, `GET` by default.
    pub method: &'a str,
    /// The path, `/` by default.
    pub path: &'a str,
    /// The value of the `Host` header, `localhost` by default.
    pub host: &'a str,
    /// The body, JSON if it is not empty.
    pub body: &'a str,
    /// The timeout for the connection, and for each read of the response; 60 seconds by default.
    pub timeout: Duration,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self {
            method: "GET",
            path: "/",
            host: "localhost",
            body: "",
            timeout: Duration::from_secs(60),
        }
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl<'a> Request<'a> {
    /// Returns a GET of a path.
    #[must_use]
    pub fn get(path: &'a str) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Sends the request as HTTP/1.0: the response has no chunks, and ends with the connection.
    ///
    /// # Errors
    /// When there is no connection, or no HTTP response in time.
    pub fn send(&self, address: SocketAddr) -> io::Result<Response> {
        let mut stream = TcpStream::connect_timeout(&address, self.timeout)?;
        stream.set_read_timeout(Some(self.timeout))?;
        self.exchange(&mut stream)
    }

    /// Sends the request over a connection that is used for nothing else.
    pub(crate) fn exchange(&self, stream: &mut (impl Read + Write)) -> io::Result<Response> {
        let Self {
            method,
            path,
            host,
            body,
            timeout: _,
        } = self;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: appdeploy-test\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = Vec::new();
        match stream.read_to_end(&mut response) {
            // A server need not announce the end of a TLS connection.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => {}
        }
        Response::parse(&String::from_utf8_lossy(&response)).ok_or_else(|| io::Error::other("the response is not HTTP"))
    }
}

impl Response {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            body: body.to_owned(),
        })
    }
}

/// Returns the page of `http://HOST/` through `address`.
///
/// An ingress controller publishes an address a moment before the rule is active, so any status other than 200 is retried
/// until `timeout` has passed.
///
/// # Errors
/// With the last error, if there was no page in time.
pub fn page(address: &str, host: &str, timeout: Duration) -> Result<String> {
    let start = Instant::now();
    loop {
        match request_page(address, host) {
            Ok(page) => return Ok(page),
            Err(error) if start.elapsed() > timeout => {
                return Err(error.context(format!("no page of http://{host}/ through {address}")));
            }
            // HTTP has no way to wait for a route.
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

fn request_page(address: impl ToSocketAddrs, host: &str) -> Result<String> {
    let mut addresses = address.to_socket_addrs().context("invalid address")?;
    let address = addresses.next().context("invalid address")?;
    let request = Request {
        host,
        timeout: Duration::from_secs(5),
        ..Request::default()
    };
    let Response { status, body } = request.send(address)?;
    ensure!(status == 200, "status {status}");
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_parsed() {
        let page = Response::parse("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nnone\r\n\r\nat all");
        let expected = Response {
            status: 404,
            body: "none\r\n\r\nat all".to_owned(),
        };
        assert_eq!(page, Some(expected));
        assert_eq!(Response::parse("SSH-2.0-OpenSSH"), None);
    }
}
