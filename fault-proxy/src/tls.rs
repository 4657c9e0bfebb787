//! Both ends of the proxy: what its clients trust it by, and what it is to the API server.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::Error;
use testcluster::pki::{Authority, Identity};

/// The names of the protocols in TLS.
pub(crate) const HTTP2: &[u8] = b"h2";
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// Returns the client's side of the proxy, which offers these protocols: it only accepts clients with a certificate of the
/// authority, since it speaks with a user's rights itself.
pub(crate) fn server(authority: &Authority, protocols: &[&[u8]]) -> Result<ServerConfig, Error> {
    let provider = Arc::new(default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authority)?), Arc::clone(&provider))
        .build()
        .map_err(|source| Error::Tls(Box::new(source)))?;
    let (certificates, key) = read(&authority.server("fault-proxy", &["127.0.0.1", "localhost"])?)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config
                .with_client_cert_verifier(clients)
                .with_single_cert(certificates, key)
        })
        .map_err(|source| Error::Tls(Box::new(source)))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// Returns the API server's side of the proxy.
pub(crate) fn client(authority: &Authority, identity: &Identity) -> Result<ClientConfig, Error> {
    let (certificates, key) = read(identity)?;
    let roots = roots(authority)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config
                .with_root_certificates(roots)
                .with_client_auth_cert(certificates, key)
        })
        .map_err(|source| Error::Tls(Box::new(source)))?;
    config.alpn_protocols = vec![HTTP1.to_vec()];
    Ok(config)
}

fn roots(authority: &Authority) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate(authority.certificate())?)
        .map_err(|source| Error::Tls(Box::new(source)))?;
    Ok(roots)
}

fn read(identity: &Identity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|source| Error::Tls(Box::new(source)))?;
    Ok((vec![certificate(&identity.certificate)?], key))
}

fn certificate(pem: &str) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| Error::Tls(Box::new(source)))
}
