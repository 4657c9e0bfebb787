//! Creates clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_rustls::{ConfigBuilderExt as _, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

use crate::address::AddressPolicy;
use crate::client::Client;
use crate::connect::{Connector, Http};
use crate::credentials::Credentials;
use crate::endpoint::Endpoint;
use crate::limits::{LimitSettings, Limits};

/// How long an idle connection is kept. AWS closes them after about a minute.
const IDLE: Duration = Duration::from_secs(20);

/// Beyond how many endpoints those without a client are dropped.
const ENDPOINTS: usize = 256;

/// Creates clients, which share connections and the limits of their endpoint. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clients {
    http: Http,
    settings: LimitSettings,
    limits: Arc<Mutex<HashMap<String, Arc<Limits>>>>,
    /// Why no certificate of an HTTPS endpoint can be verified.
    no_roots: Option<Arc<str>>,
}

impl Clients {
    /// Returns clients that trust the certificates of the machine; `SSL_CERT_FILE` names others.
    #[must_use]
    pub fn new(policy: AddressPolicy, settings: LimitSettings) -> Self {
        let (tls, no_roots) = match builder().with_native_roots() {
            Ok(tls) => (tls.with_no_client_auth(), None),
            Err(error) => {
                let why = format!("found no certificates to trust: {error}; SSL_CERT_FILE names a file of them");
                let tls = builder().with_root_certificates(RootCertStore::empty());
                (tls.with_no_client_auth(), Some(why.into()))
            }
        };
        Self {
            no_roots,
            ..Self::with_tls(policy, settings, tls)
        }
    }

    /// Returns clients that trust `roots` only.
    #[must_use]
    pub fn with_roots(policy: AddressPolicy, settings: LimitSettings, roots: RootCertStore) -> Self {
        let tls = builder().with_root_certificates(roots).with_no_client_auth();
        Self::with_tls(policy, settings, tls)
    }

    fn with_tls(policy: AddressPolicy, settings: LimitSettings, tls: ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(policy));
        let http = HttpClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(settings.concurrency)
            .build(connector);
        Self {
            http,
            settings,
            limits: Arc::default(),
            no_roots: None,
        }
    }

    /// Returns a client for an endpoint.
    #[must_use]
    pub fn client(&self, endpoint: Endpoint, credentials: Arc<Credentials>) -> Client {
        Client {
            http: self.http.clone(),
            limits: self.limits_of(&endpoint),
            no_roots: self.no_roots.clone().filter(|_| endpoint.is_https()),
            endpoint,
            credentials,
        }
    }

    /// Returns the limits of an endpoint. Endpoints with several regions are one server.
    fn limits_of(&self, endpoint: &Endpoint) -> Arc<Limits> {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.len() >= ENDPOINTS {
            limits.retain(|_, limits| Arc::strong_count(limits) > 1);
        }
        let new = || Arc::new(Limits::new(self.settings.clone()));
        limits.entry(endpoint.url()).or_insert_with(new).clone()
    }
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    // The provider supports all protocol versions, so this is never an error.
    ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|_| ClientConfig::builder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_an_endpoint_share_its_limits() {
        let clients = Clients::with_roots(
            AddressPolicy::RefuseLocal,
            LimitSettings::default(),
            RootCertStore::empty(),
        );
        let of = |url: &str| clients.clone().limits_of(&Endpoint::parse(url, "us-east-1").unwrap());
        assert!(Arc::ptr_eq(&of("http://a.example"), &of("http://A.example/")));
        assert!(!Arc::ptr_eq(&of("http://a.example"), &of("http://a.example:81")));
    }

    #[test]
    fn limits_of_endpoints_without_a_client_are_dropped_when_there_are_many() {
        let clients = Clients::with_roots(
            AddressPolicy::RefuseLocal,
            LimitSettings::default(),
            RootCertStore::empty(),
        );
        let of =
            |number: usize| clients.limits_of(&Endpoint::parse(&format!("http://a{number}.example"), "r").unwrap());
        let used = of(0);
        for number in 1..3 * ENDPOINTS {
            of(number);
        }
        assert!(Arc::ptr_eq(&used, &of(0)));
        assert!(clients.limits.lock().unwrap().len() <= ENDPOINTS);
    }
}
