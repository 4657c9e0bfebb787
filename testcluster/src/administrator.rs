//! The administrator of an API server, without kubectl, which costs a tenth of a second of processor time for each request.
//! Tests send thousands of these.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::http::Request;
use crate::pki::Authority;

/// A user of the group `system:masters`, who has all rights.
#[derive(Clone, Debug)]
pub(crate) struct Administrator(Arc<ClientConfig>);

impl Administrator {
    /// Returns the administrator of the API servers of an authority.
    ///
    /// # Errors
    /// When the authority has no valid certificate.
    pub(crate) fn new(authority: &Authority) -> io::Result<Self> {
        let config = || -> Result<ClientConfig, Box<dyn std::error::Error>> {
            let identity = authority.client("testcluster", &["system:masters"])?;
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
            let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
            Ok(ClientConfig::builder_with_provider(ring::default_provider().into())
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_client_auth_cert(vec![certificate], key)?)
        };
        config()
            .map(|config| Self(config.into()))
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Sends a GET over a connection of its own, and returns the body of the response.
    ///
    /// # Errors
    /// When there is no response, or one with another status than 200.
    pub(crate) fn get(&self, address: SocketAddr, path: &str) -> io::Result<String> {
        let request = Request::get(path);
        let connection = ClientConnection::new(self.0.clone(), address.ip().into()).map_err(io::Error::other)?;
        let stream = TcpStream::connect_timeout(&address, request.timeout)?;
        stream.set_read_timeout(Some(request.timeout))?;
        let response = request.exchange(&mut StreamOwned::new(connection, stream))?;
        if response.status == 200 {
            return Ok(response.body);
        }
        Err(io::Error::other(format!(
            "status {}: {}",
            response.status, response.body
        )))
    }
}
