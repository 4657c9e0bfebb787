//! Requests a page like a browser, and prints it as text.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Returns the answer of `http://ADDRESS/` for `host`.
///
/// An ingress controller publishes an address a moment before the rule is active, so any status other than 200 is retried
/// until `patience` has passed.
///
/// # Errors
/// With the last answer, if it was never the page.
pub fn get(address: &str, host: &str, patience: Duration) -> Result<String> {
    let start = Instant::now();
    loop {
        match once(address, host) {
            Ok(page) => return Ok(page),
            Err(error) if start.elapsed() > patience => {
                return Err(error.context(format!("http://{host}/ does not answer through {address}")));
            }
            // HTTP has no way to wait for a route.
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

fn once(address: &str, host: &str) -> Result<String> {
    let mut places = address
        .to_socket_addrs()
        .with_context(|| format!("{address} is not an address"))?;
    let place = places.next().with_context(|| format!("{address} is not an address"))?;
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&place, limit).context("there is no connection")?;
    stream
        .set_read_timeout(Some(limit))
        .context("failed to limit the wait")?;
    write!(
        stream,
        "GET / HTTP/1.0\r\nHost: {host}\r\nUser-Agent: appdeploy-demo\r\n\r\n"
    )
    .context("failed to ask")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("the answer broke off")?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let line = head.lines().next().unwrap_or_default();
    if line.split_whitespace().nth(1) != Some("200") {
        bail!("the answer is {line:?}");
    }
    Ok(body.to_owned())
}

/// Returns the text of an HTML page, line by line, without its markup.
#[must_use]
pub fn text(html: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let tag = &rest[start..];
        // The content of the head is not on the page.
        let end = if tag.starts_with("<head") { "</head>" } else { ">" };
        rest = tag.find(end).map_or("", |at| &tag[at + end.len()..]);
    }
    text.push_str(rest);
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_printed_without_markup() {
        let page = "<!DOCTYPE html>\n<html><head><title>Hi</title>\n<style>\nbody { color: red }\n</style></head>\n\
                    <body>\n<h1>Welcome to nginx!</h1>\n<p>It <em>works</em>.</p></body></html>\n";
        assert_eq!(text(page), ["Welcome to nginx!", "It works."]);
    }

    #[test]
    fn incomplete_markup_is_ignored() {
        assert_eq!(text("one <b"), ["one"]);
    }
}
