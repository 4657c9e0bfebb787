//! Endpoints with TLS.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use sqs::{AddressPolicy, Clients, Credentials, Endpoint, Error, LimitSettings};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::scripted::{Answer, serve};

#[tokio::test]
async fn nothing_is_sent_to_a_server_without_a_trusted_certificate() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let seen = requests.clone();
    let server = tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, seen.clone(), Arc::new(|_| Answer::url())));
            }
        }
    });
    let client = |roots| {
        let credentials = Arc::new(Credentials::new("id".into(), "hush".into(), None));
        Clients::with_roots(AddressPolicy::AllowLocal, LimitSettings::default(), roots)
            .client(Endpoint::parse(&url, "us-east-1").unwrap(), credentials)
    };
    let error = client(RootCertStore::empty()).delete("http://queue").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(requests.lock().unwrap().len(), 0);

    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    client(roots).queue_url("a").await.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 1);
    server.abort();
}
