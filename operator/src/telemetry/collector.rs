//! The connection to a collector of traces, with the operator's HTTP and TLS. An outage of the collector is logged once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::watch::chain;

/// How long the collector may take for a batch.
const DEADLINE: Duration = Duration::from_secs(5);

/// The most bytes of an answer that are read.
const ANSWER: usize = 64 * 1024;

/// How often a continuing outage is logged.
const REMINDER: Duration = Duration::from_secs(600);

/// Sends batches to a collector.
#[derive(Debug)]
pub struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Spans are exported by a thread outside of the runtime.
    runtime: Handle,
    trouble: Mutex<Trouble>,
}

impl Collector {
    /// Returns a connection that is opened when there are spans to send. Must be called within the runtime.
    ///
    /// # Errors
    /// Returns an error if TLS is needed, and the machine trusts no certificates.
    pub fn at(endpoint: &Uri) -> anyhow::Result<Self> {
        let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()?;
        let tls = if endpoint.scheme_str() == Some("https") {
            tls.with_native_roots().with_context(|| {
                format!("no certificates to trust were found for {endpoint}; SSL_CERT_FILE names a file of them")
            })?
        } else {
            tls.with_root_certificates(RootCertStore::empty())
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.with_no_client_auth())
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Handle::current(),
            trouble: Mutex::default(),
        })
    }

    fn note(&self, failure: Option<&str>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble.note(failure.is_some(), Instant::now()) {
            Message::Nothing => {}
            Message::Failing => warn!(
                error = failure,
                "traces can't be sent, and are dropped; this is said again every {} min while it lasts",
                REMINDER.as_secs() / 60
            ),
            Message::Works => info!("traces can be sent again"),
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // A timeout must be created within the runtime.
        let sent = self
            .runtime
            .spawn(async move { timeout(DEADLINE, send(client, request)).await });
        let answer = match sent.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(anyhow::anyhow!("no answer within {} s", DEADLINE.as_secs())),
            // The runtime ends.
            Err(error) => return Err(error.into()),
        };
        let failure = match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("the collector answers {}", answer.status())),
            Err(error) => Some(chain(error.as_ref())),
        };
        self.note(failure.as_deref());
        answer.map_err(Into::into)
    }
}

async fn send(
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    request: Request<Bytes>,
) -> anyhow::Result<Response<Bytes>> {
    let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, ANSWER).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the collector's answer can't be read: {error}"))?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// The message about the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Nothing,
    Failing,
    Works,
}

/// When an outage was logged last, during an outage.
#[derive(Debug, Default)]
struct Trouble(Option<Instant>);

impl Trouble {
    fn note(&mut self, failed: bool, now: Instant) -> Message {
        match (failed, self.0) {
            (true, Some(said)) if now.saturating_duration_since(said) < REMINDER => Message::Nothing,
            (true, _) => {
                self.0 = Some(now);
                Message::Failing
            }
            (false, Some(_)) => {
                self.0 = None;
                Message::Works
            }
            (false, None) => Message::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_logged_at_intervals_and_its_end_once() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        let mut note = |failed, minutes: u64| trouble.note(failed, start + Duration::from_secs(60 * minutes));
        assert_eq!(note(false, 0), Message::Nothing);
        assert_eq!(note(true, 1), Message::Failing);
        assert_eq!(note(true, 5), Message::Nothing);
        assert_eq!(note(true, 11), Message::Failing);
        assert_eq!(note(true, 12), Message::Nothing);
        assert_eq!(note(false, 13), Message::Works);
        assert_eq!(note(false, 14), Message::Nothing);
        assert_eq!(note(true, 15), Message::Failing);
    }
}
