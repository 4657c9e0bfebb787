//! A client that trusts only given authorities, and can misbehave.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A client certificate and its key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// One who connects to webhooks in this namespace as an API server does.
#[derive(Clone)]
pub struct Caller {
    pub address: SocketAddr,
    name: String,
    connector: TlsConnector,
}

impl Caller {
    /// Makes one that trusts these authorities, as PEM.
    pub fn new(address: SocketAddr, namespace: &str, bundle: &str) -> Self {
        Self::with_versions(address, namespace, bundle, rustls::ALL_VERSIONS)
    }

    pub fn with_versions(
        address: SocketAddr,
        namespace: &str,
        bundle: &str,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Self {
        Self::build(address, namespace, bundle, versions, None)
    }

    /// Creates a client that shows a certificate.
    pub fn with_identity(address: SocketAddr, namespace: &str, bundle: &str, identity: Identity) -> Self {
        Self::build(address, namespace, bundle, rustls::ALL_VERSIONS, Some(identity))
    }

    fn build(
        address: SocketAddr,
        namespace: &str,
        bundle: &str,
        versions: &[&'static rustls::SupportedProtocolVersion],
        identity: Option<Identity>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        };
        // As API servers do.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self {
            address,
            name: format!("appdeploy-webhook.{namespace}.svc"),
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    pub async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.connector
            .connect(self.name.clone().try_into().unwrap(), stream)
            .await
    }

    /// Posts a body on a new connection, and returns the status and the body of the answer.
    pub async fn post(&self, path: &str, body: &str) -> io::Result<(u16, String)> {
        let asked = async {
            let mut stream = self.connect().await?;
            stream.write_all(head(path, body.len(), "close").as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            read_all(&mut stream).await
        };
        timeout(PATIENCE, asked).await?
    }
}

pub fn head(path: &str, length: usize, connection: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: webhook\r\nConnection: {connection}\r\nContent-Length: {length}\r\n\r\n")
}

/// Reads an answer to its end, which is that of the connection.
pub async fn read_all(stream: &mut TlsStream<TcpStream>) -> io::Result<(u16, String)> {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) => Ok((status(head), body.to_owned())),
        None => Err(ended.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Reads an answer whose body ends with a line, and leaves the connection open.
pub async fn read_line(stream: &mut TlsStream<TcpStream>) -> io::Result<(u16, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && body.ends_with('\n')
        {
            return Ok((status(head), body.to_owned()));
        }
        let mut chunk = [0; 1024];
        let count = timeout(PATIENCE, stream.read(&mut chunk)).await??;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}
