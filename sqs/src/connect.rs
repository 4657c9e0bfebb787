//! Opens connections to addresses that the policy allows.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tower::Service;

use crate::address::AddressPolicy;

/// How long a name may take to resolve, and each address to connect.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The connections of all clients.
pub(crate) type Http = HttpClient<HttpsConnector<Connector>, Full<Bytes>>;

/// Resolves a name, checks its addresses, and connects to the first allowed one that answers.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    policy: AddressPolicy,
}

/// All addresses of a host are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not allowed")]
pub(crate) struct Refused(pub(crate) IpAddr);

impl Connector {
    pub(crate) fn new(policy: AddressPolicy) -> Self {
        Self { policy }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let policy = self.policy;
        Box::pin(async move { connect(&uri, policy).await.map(TokioIo::new) })
    }
}

async fn connect(uri: &Uri, policy: AddressPolicy) -> io::Result<TcpStream> {
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or(match uri.scheme_str() {
        Some("https") => 443,
        _ => 80,
    });
    // Numeric addresses, also in unusual notations, become addresses here as well.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(TIMEOUT, lookup_host((name, port))).await;
    let found =
        found.map_err(|_| io::Error::other(format!("failed to resolve {name} within {} s", TIMEOUT.as_secs())))?;
    let found = found.map_err(|error| io::Error::new(error.kind(), format!("failed to resolve {name}: {error}")))?;
    let mut last = io::Error::other(format!("{name} has no address"));
    for address in allowed(found.collect(), policy).map_err(io::Error::other)? {
        match timeout(TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
            Err(_) => last = io::Error::other(format!("{address}: no connection within {} s", TIMEOUT.as_secs())),
        }
    }
    Err(last)
}

/// Returns the addresses that the policy allows.
///
/// # Errors
/// With the first address if all of them are refused.
fn allowed(addresses: Vec<SocketAddr>, policy: AddressPolicy) -> Result<Vec<SocketAddr>, Refused> {
    let (allowed, refused): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| policy.allows(address.ip()));
    match refused.first() {
        Some(address) if allowed.is_empty() => Err(Refused(address.ip())),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_addresses_of_a_name_are_used() {
        let (local, other): (SocketAddr, SocketAddr) =
            ("169.254.169.254:80".parse().unwrap(), "10.0.0.1:80".parse().unwrap());
        let refuse = AddressPolicy::RefuseLocal;
        assert_eq!(allowed(vec![local, other], refuse), Ok(vec![other]));
        assert_eq!(allowed(vec![local], refuse), Err(Refused(local.ip())));
        assert_eq!(allowed(vec![], refuse), Ok(vec![]));
        assert_eq!(allowed(vec![local], AddressPolicy::AllowLocal), Ok(vec![local]));
    }

    #[tokio::test]
    async fn names_and_notations_of_local_addresses_are_refused() {
        for host in [
            "localhost",
            "127.0.0.1",
            "[::1]",
            "127.1",
            "2130706433",
            "0x7f000001",
            "[::ffff:127.0.0.1]",
        ] {
            let uri: Uri = format!("http://{host}:9/").parse().unwrap();
            let error = connect(&uri, AddressPolicy::RefuseLocal).await.unwrap_err();
            let refused = error
                .get_ref()
                .and_then(|error| error.downcast_ref::<Refused>())
                .is_some();
            // A resolver that does not know a notation is fine as well.
            let unknown = error.to_string().starts_with("failed to resolve");
            assert!(
                refused || (unknown && host != "localhost" && host != "127.0.0.1"),
                "{host}: {error}"
            );
        }
    }
}
