//! The server's certificate, which changes at run time.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch as channel;

/// The certificate for new connections. Cheap to copy; all copies are one.
#[derive(Clone, Default)]
pub struct Served(Arc<channel::Sender<Option<Current>>>);

#[derive(Clone)]
struct Current {
    pair: Arc<CertifiedKey>,
    end: Timestamp,
}

impl Served {
    /// Serves this certificate, which is valid until `end`, from now on. Existing connections stay. Returns whether it is another one than
    /// before.
    #[must_use]
    pub fn show(&self, pair: Arc<CertifiedKey>, end: Timestamp) -> bool {
        self.0.send_if_modified(|current| {
            let is_news = current.as_ref().is_none_or(|current| current.pair.cert != pair.cert);
            if is_news {
                *current = Some(Current { pair, end });
            }
            is_news
        })
    }

    /// Returns when the certificate expires, in seconds since 1970, if there is one.
    #[must_use]
    pub fn expires_at(&self) -> Option<i64> {
        self.0.borrow().as_ref().map(|current| current.end.as_second())
    }

    /// Waits until there is a certificate.
    pub async fn there(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = changes.wait_for(Option::is_some).await;
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served")
            .field("expires_at", &self.expires_at())
            .finish()
    }
}

impl ResolvesServerCert for Served {
    // For any server name: a proxy or a port-forward may use another one.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().as_ref().map(|current| current.pair.clone())
    }
}
