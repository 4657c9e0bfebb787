//! Admission webhooks: their server, its certificates, and the authorities in the webhook configurations.
//!
//! ```text
//! Secret -> certificate: next action -> Secret
//!        -> served: the server's certificate
//!        -> bundle: the authorities in both webhook configurations
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
use certificate::Lifetimes;
use certificate_manager::CertificateManager;
use served::Served;
use server::Tls;

use crate::http_server::{self, Limits};

/// The settings of webhooks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// The operator's namespace: that of the Service, and of the Secret.
    pub namespace: String,
    /// The source of certificates.
    pub certificates: Source,
    /// The authorities of clients' certificates, as PEM. Without it, clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// The limits of the server.
    pub limits: Limits,
}

impl Options {
    /// Returns the settings of webhooks, if they are enabled.
    #[must_use]
    pub fn of(settings: &Settings) -> Option<Self> {
        let own = || Source::Own {
            lifetimes: Lifetimes::default(),
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

/// The source of certificates.
#[derive(Clone, Debug)]
pub enum Source {
    /// The operator creates them, and writes their authority to the webhook configurations.
    Own {
        /// How long they live.
        lifetimes: Lifetimes,
        /// How often the Secret and the configurations are listed again.
        resync: Duration,
    },
    /// Another program, such as cert-manager, writes `tls.crt` and `tls.key` to this folder, and the authority to the configurations.
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
    /// Returns which address can't be used.
    pub fn listen(options: Options, client: Client, caller: Caller) -> anyhow::Result<Self> {
        let address = options.bind;
        let listener = http_server::listen(address)
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
    /// Returns an error if the system does not report it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the server's certificate, which changes: whether there is one, and until when it is valid.
    #[must_use]
    pub fn served(&self) -> Served {
        self.served.clone()
    }

    /// Serves these routes until `end`, then finishes running requests. Until there is a certificate, connections are refused.
    ///
    /// # Errors
    /// Returns an error if TLS or the file with the clients' authorities can't be used.
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
                Source::Own { lifetimes, resync } => {
                    let certificate_manager =
                        CertificateManager::new(self.client, self.caller, namespace, lifetimes, resync, served);
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
