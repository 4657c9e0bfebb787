//! TLS for the port of webhooks.
//!
//! TLS 1.3 and HTTP/1.1 only, which API servers support. HTTP/2 would save connections, but had attacks that exhaust a server
//! (CVE-2023-44487, CVE-2024-27316).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as channel;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use super::certificate::material::provider;
use super::served::Served;
use crate::http_server::{self, Transport};

pub use crate::http_server::Limits;

/// The time between two reads of the file with the clients' authorities.
const PERIOD: Duration = Duration::from_secs(10);

/// The settings of TLS, which change while the server runs. Cheap to copy; all copies are one.
#[derive(Clone)]
pub struct Tls {
    config: Arc<channel::Sender<Arc<ServerConfig>>>,
    served: Served,
    client_ca: Option<Arc<Path>>,
}

impl Tls {
    /// Reads the settings. With `client_ca`, a PEM file, clients must have a certificate of one of the authorities in it.
    ///
    /// # Errors
    /// Returns an error if TLS or the file can't be used.
    pub fn new(served: Served, client_ca: Option<PathBuf>) -> anyhow::Result<Self> {
        let client_ca: Option<Arc<Path>> = client_ca.map(Into::into);
        let pem = client_ca.as_deref().map(read).transpose()?;
        let config = config(&served, pem.as_deref())?;
        Ok(Self {
            config: Arc::new(channel::Sender::new(Arc::new(config))),
            served,
            client_ca,
        })
    }

    /// Reads the clients' authorities again when their file changes. A file that can't be used is reported once, and the
    /// authorities from before stay. Never ends.
    pub async fn follow(&self) {
        let Some(path) = self.client_ca.as_deref() else {
            return std::future::pending().await;
        };
        let mut known = read(path).ok();
        let mut reported = false;
        loop {
            sleep(PERIOD).await;
            let changed = read(path).and_then(|pem| {
                let is_new = known.as_ref() != Some(&pem);
                if is_new {
                    self.config.send_replace(Arc::new(config(&self.served, Some(&pem))?));
                    known = Some(pem);
                }
                Ok(is_new)
            });
            match changed {
                Ok(is_new) => {
                    reported = false;
                    if is_new {
                        info!(file = %path.display(), "read the authorities of webhook clients");
                    }
                }
                Err(error) if !reported => {
                    reported = true;
                    warn!(
                        error = format!("{error:#}"),
                        "the authorities of webhook clients can't be used; keeping the previous ones"
                    );
                }
                Err(_) => {}
            }
        }
    }
}

impl Transport for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn accept(&self, stream: TcpStream) -> io::Result<Self::Stream> {
        let config = self.config.borrow().clone();
        TlsAcceptor::from(config).accept(stream).await
    }
}

/// Serves over TLS until `end`, then finishes running requests.
///
/// # Errors
/// Returns an error if TLS can't be set up.
pub async fn serve(
    listener: TcpListener,
    served: Served,
    router: Router,
    limits: Limits,
    end: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    http_server::serve(listener, Tls::new(served, None)?, router, limits, end).await;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| {
        format!(
            "{} can't be read; set --webhook-client-ca to a file with certificates",
            path.display()
        )
    })
}

fn config(served: &Served, client_ca: Option<&[u8]>) -> anyhow::Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .context("TLS 1.3 can't be used")?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for authority in CertificateDer::pem_slice_iter(pem) {
                let authority = authority.context("--webhook-client-ca is not a PEM file")?;
                roots
                    .add(authority)
                    .context("--webhook-client-ca has an invalid certificate")?;
            }
            ensure!(!roots.is_empty(), "--webhook-client-ca has no certificate");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            builder.with_client_cert_verifier(verifier.build().context("--webhook-client-ca can't be used")?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(served.clone()));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Each connection sees the current certificate, and nothing is kept of former ones.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
