//! Admission webhooks, served by the operator itself: the server, its certificates, and that API servers trust them.
//!
//! ```text
//! Secret -> certificate: what is next? -> Secret
//!        -> served: what the server shows
//!        -> bundle: whom API servers trust, in both webhook configurations
//! ```

pub mod admission;
pub mod bundle;
pub mod certificate;
pub mod certificate_manager;
pub mod directory;
pub mod log_limit;
pub mod review;
pub mod served;
pub mod server;
pub mod write_limit;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use kube::Client;
use tokio::net::TcpListener;

use crate::call::Caller;
use crate::settings::Settings;
use certificate::Terms;
use certificate_manager::CertificateManager;
use served::Served;
use server::Tls;

use crate::http_server::{self, Limits};

/// Where webhooks are served, and by what right.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// The operator's namespace: that of the Service, and of the Secret.
    pub namespace: String,
    /// Where certificates come from.
    pub certificates: Source,
    /// The authorities that clients must have a certificate of, as PEM. Without it, no certificate is asked for.
    pub client_ca: Option<PathBuf>,
    /// What clients may take.
    pub limits: Limits,
}

impl Options {
    /// Returns what the settings ask for, unless they want no webhooks.
    #[must_use]
    pub fn of(settings: &Settings) -> Option<Self> {
        let own = || Source::Own {
            terms: Terms::default(),
            resync: settings.resync_period,
        };
        settings.webhooks.then(|| Self {
            bind: settings.webhook_bind,
            namespace: settings.namespace.clone(),
            certificates: settings.webhook_cert_dir.clone().map_or_else(own, Source::Dir),
            client_ca: settings.webhook_client_ca.clone(),
            limits: Limits::default(),
        })
    }
}

/// Where certificates come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// They are made here, and API servers are told whom to trust.
    Own {
        /// How long they live.
        terms: Terms,
        /// How often the Secret and the configurations are listed again.
        resync: Duration,
    },
    /// Somebody else makes them, and tells API servers: `tls.crt` and `tls.key` in this folder.
    Dir(PathBuf),
}

/// The webhooks of one operator.
pub struct Webhook {
    options: Options,
    listener: TcpListener,
    served: Served,
    client: Client,
    caller: Caller,
}

impl Webhook {
    /// Opens the port. `caller` is not fenced: followers serve webhooks, too.
    ///
    /// # Errors
    /// Says which address can't be used.
    pub async fn listen(options: Options, client: Client, caller: Caller) -> anyhow::Result<Self> {
        let address = options.bind;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("can't listen on {address}; set --webhook-bind to a free address"))?;
        Ok(Self {
            options,
            listener,
            served: Served::default(),
            client,
            caller,
        })
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the certificate that is shown, now and later: whether there is one, and until when it is valid.
    #[must_use]
    pub fn served(&self) -> Served {
        self.served.clone()
    }

    /// Serves these routes until `end`, then lets what has begun come to its end. Until there is a certificate, whoever
    /// connects is refused.
    ///
    /// # Errors
    /// When TLS or the file with the clients' authorities can't be used.
    pub async fn run(self, router: Router, end: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Options {
            namespace,
            certificates,
            client_ca,
            limits,
            ..
        } = self.options;
        let served = self.served.clone();
        let tls = Tls::new(self.served, client_ca)?;
        let follow = tls.clone();
        let keep = async move {
            match certificates {
                Source::Own { terms, resync } => {
                    let certificate_manager =
                        CertificateManager::new(self.client, self.caller, namespace, terms, resync, served);
                    certificate_manager.run().await;
                }
                Source::Dir(folder) => directory::follow(&folder, &served).await,
            }
        };
        tokio::select! {
            () = keep => anyhow::bail!("the certificates of webhooks are no longer maintained; this is a bug, please report it"),
            () = follow.follow() => anyhow::bail!("the clients' authorities are no longer read; this is a bug, please report it"),
            () = http_server::serve(self.listener, tls, router, limits, end) => Ok(()),
        }
    }
}
