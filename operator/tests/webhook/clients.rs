//! Clients that must show a certificate, and shares of source addresses.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::routing::post;
use operator::http_server;
use operator::webhook::served::Served;
use operator::webhook::server::{Limits, Tls};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::webhook::client::{Caller, Identity, PATIENCE};
use crate::webhook::server::{NAMESPACE, Server, certificate};

/// An authority of client certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn identity(&self) -> Identity {
        let mut params = CertificateParams::new(vec!["kube-apiserver".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_clients_with_a_certificate_of_the_client_ca_are_accepted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let missing = Tls::new(Served::default(), Some(file.clone())).err().unwrap();
    assert!(format!("{missing:#}").contains("--webhook-client-ca"), "{missing:#}");
    std::fs::write(&file, "nothing").unwrap();
    let empty = Tls::new(Served::default(), Some(file.clone())).err().unwrap();
    assert!(format!("{empty:#}").contains("no certificate"), "{empty:#}");

    std::fs::write(&file, &ours.pem).unwrap();
    let served = Served::default();
    let bundle = certificate(&served);
    let tls = Tls::new(served, Some(file.clone())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/", post(async || "ok\n"));
    let follow = tls.clone();
    let following = tokio::spawn(async move { follow.follow().await });
    let end = std::future::pending();
    let serving = tokio::spawn(http_server::serve(listener, tls, routes, Limits::default(), end));
    let with = |identity| Caller::with_identity(address, NAMESPACE, &bundle, identity);

    assert_eq!(with(ours.identity()).post("/", "").await.unwrap().0, 200);
    with(theirs.identity()).post("/", "").await.unwrap_err();
    Caller::new(address, NAMESPACE, &bundle)
        .post("/", "")
        .await
        .unwrap_err();

    // The authority is replaced while the server runs.
    std::fs::write(&file, &theirs.pem).unwrap();
    timeout(PATIENCE, async {
        while with(theirs.identity()).post("/", "").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    })
    .await
    .unwrap();
    with(ours.identity()).post("/", "").await.unwrap_err();
    following.abort();
    serving.abort();
}

async fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(source), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// A client with more connections than there are places, all of whose requests are being answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_source_address_does_not_block_others() {
    let limits = Limits {
        connections: 16,
        requests_per_source: 4,
        ..Limits::default()
    };
    let server = Server::start_plain(limits);
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = connect_from([127, 0, 0, 2], server.address).await;
        stream
            .write_all(crate::webhook::client::head("/stuck", 0, "keep-alive").as_bytes())
            .await
            .unwrap();
        held.push(stream);
    }
    let mut other = connect_from([127, 0, 0, 3], server.address).await;
    other
        .write_all(crate::webhook::client::head("/", 0, "close").as_bytes())
        .await
        .unwrap();
    let answer = timeout(
        std::time::Duration::from_secs(3),
        crate::webhook::server::until_ended(&mut other),
    );
    let answer = String::from_utf8(answer.await.unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
