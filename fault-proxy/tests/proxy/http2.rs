//! HTTP/2: the frames that a client receives.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use fault_proxy::{Action, GoAway, Reason, Requests, Rule, Verb};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use testcluster::wait::eventually;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::{QUIET, Stage, TIMEOUT, count, creates, watches};

/// A connection of HTTP/2 through the proxy.
struct Client {
    namespace: &'static str,
    sender: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    async fn connect(stage: &Stage) -> Self {
        let authority = stage.control_plane.ca();
        let identity = authority.client("operator", &["system:masters"]).unwrap();
        let mut roots = RootCertStore::empty();
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        roots.add(certificate(authority.certificate())).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate(&identity.certificate)], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let address: SocketAddr = stage.proxy.url().strip_prefix("https://").unwrap().parse().unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        let name = ServerName::from(address.ip());
        let tls = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        // A stream that is not read leaves a window for others.
        let mut builder = h2::client::Builder::new();
        let handshake = builder.initial_connection_window_size(1 << 20).handshake(tls);
        let (sender, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(connection);
        let mut client = Self {
            namespace: stage.namespace,
            sender,
            connection,
        };
        // After the answer, the server's settings are known.
        let (response, _) = client.send(Method::GET, "/version", "");
        assert_eq!(answer(response).await.unwrap().0, StatusCode::OK);
        client
    }

    /// Sends a request, and returns its answer and the rest of its body, if the window is too small for it.
    fn send(&mut self, method: Method, path: &str, body: &str) -> (ResponseFuture, SendStream<Bytes>) {
        let (response, mut stream) = self.begin(method, path, body).unwrap();
        if !body.is_empty() {
            stream.send_data(Bytes::from(body.to_owned()), true).unwrap();
        }
        (response, stream)
    }

    /// Sends the head of a request.
    fn begin(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1{path}"))
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .body(())
            .unwrap();
        self.sender.send_request(request, body.is_empty())
    }

    fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    /// Creates a ConfigMap.
    fn create(&mut self, name: &str) -> ResponseFuture {
        self.send(Method::POST, &self.path("configmaps"), &object(name)).0
    }

    async fn watch(&mut self, resource: &str) -> RecvStream {
        let path = format!("{}?watch=true", self.path(resource));
        let (response, _) = self.send(Method::GET, &path, "");
        response.await.unwrap().into_body()
    }

    async fn is_served(&mut self) {
        let (response, _) = self.send(Method::GET, "/version", "");
        assert_eq!(answer(response).await.unwrap().0, StatusCode::OK);
    }
}

/// Runs a test in a namespace of its own.
fn with_client(namespace: &'static str, test: impl AsyncFnOnce(&Stage, Client)) {
    let stage = Stage::with_http2(namespace);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::connect(&stage).await;
        timeout(TIMEOUT, test(&stage, client)).await.unwrap();
    });
}

fn object(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

/// Waits for the status and the body of an answer.
async fn answer(response: ResponseFuture) -> Result<(StatusCode, String), h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    Ok((head.status, String::from_utf8(text).unwrap()))
}

/// Waits for events until one is about an object of this name.
async fn until_reported(watch: &mut RecvStream, name: &str) -> Result<(), h2::Error> {
    let wanted = format!("\"name\":\"{name}\"");
    let mut text = String::new();
    while !text.contains(&wanted) {
        let data = timeout(TIMEOUT, watch.data()).await.unwrap().unwrap()?;
        watch.flow_control().release_capacity(data.len())?;
        text.push_str(std::str::from_utf8(&data).unwrap());
    }
    Ok(())
}

/// Asserts that the proxy has sent a frame that resets the stream.
fn is_reset(error: &h2::Error, reason: Reason) {
    assert!(error.is_reset() && error.is_remote(), "{error:?}");
    assert_eq!(error.reason(), Some(reason));
}

/// Asserts that the proxy has sent GOAWAY.
fn is_excluded(error: &h2::Error) {
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
    assert_eq!(error.reason(), Some(Reason::NO_ERROR));
}

#[test]
fn requests_share_a_connection() {
    with_client("shared", async |stage, mut client| {
        let mut watch = client.watch("configmaps").await;
        let names: Vec<String> = (0..20).map(|n| format!("n-{n}")).collect();
        let created: Vec<_> = names.iter().map(|name| client.create(name)).collect();
        for response in created {
            assert_eq!(answer(response).await.unwrap().0, StatusCode::CREATED);
        }
        until_reported(&mut watch, "n-19").await.unwrap();
        let (list, _) = client.send(Method::GET, &client.path("configmaps"), "");
        let list = answer(list).await.unwrap().1;
        assert!(names.iter().all(|name| list.contains(name)));
        drop(watch);
        eventually("the watch is closed", || stage.proxy.open_watches(&watches()) == 0);
        client.is_served().await;
    });
}

#[test]
fn goaway_ends_a_connection_after_the_requests_that_it_includes() {
    with_client("goaway", async |stage, mut client| {
        let hold = stage.proxy.add(Rule::new(creates().named("one"), Action::Hold));
        let shut_down = Action::GoAway(GoAway::Included);
        stage.proxy.add(Rule::new(creates().named("two"), shut_down));
        let (one, two) = (client.create("one"), client.create("two"));
        assert_eq!(answer(two).await.unwrap().0, StatusCode::CREATED);
        let refused = poll_fn(|cx| client.sender.poll_ready(cx)).await.unwrap_err();
        is_excluded(&refused);
        assert!(!stage.exists("one") && !client.connection.is_finished());
        stage.proxy.remove(hold);
        assert_eq!(answer(one).await.unwrap().0, StatusCode::CREATED);
        drop(client.sender);
        timeout(TIMEOUT, client.connection).await.unwrap().unwrap().unwrap();
    });
}

#[test]
fn goaway_excludes_requests_in_flight() {
    with_client("excluded", async |stage, mut client| {
        let hold = stage.proxy.add(Rule::new(creates().named("one"), Action::Hold));
        let excluded = Action::GoAway(GoAway::Excluded);
        let rule = stage.proxy.add(Rule::new(creates().named("two"), excluded));
        let [one, two, three] = ["one", "two", "three"].map(|name| client.create(name));
        is_excluded(&answer(two).await.unwrap_err());
        is_excluded(&answer(three).await.unwrap_err());
        stage.proxy.remove(hold);
        assert_eq!(answer(one).await.unwrap().0, StatusCode::CREATED);
        assert_eq!(stage.proxy.hits(rule), 1);
        assert_eq!(
            ["one", "two", "three"].map(|name| stage.exists(name)),
            [true, false, false]
        );
    });
}

/// kubectl repeats a request that GOAWAY excludes, on another connection.
#[test]
fn excluded_request_can_be_sent_again() {
    let stage = Stage::with_http2("again");
    let excluded = Action::GoAway(GoAway::Excluded);
    stage.proxy.add(Rule::new(creates(), excluded).first(1));
    stage.create("one").unwrap();
    assert_eq!(
        stage.told(Verb::Create, "configmaps"),
        [(None, None), (Some(201), Some(201))]
    );
}

#[test]
fn stream_is_reset_and_others_continue() {
    with_client("reset-stream", async |stage, mut client| {
        let mut watch = client.watch("configmaps").await;
        for reason in [Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR] {
            let rule = stage.proxy.add(Rule::new(creates(), Action::ResetStream(reason)));
            is_reset(&answer(client.create("one")).await.unwrap_err(), reason);
            stage.proxy.remove(rule);
        }
        assert!(!stage.exists("one"));
        let lost = stage.proxy.add(Rule::new(creates(), Action::ForwardThenDisconnect));
        is_reset(&answer(client.create("one")).await.unwrap_err(), Reason::INTERNAL_ERROR);
        stage.proxy.remove(lost);
        until_reported(&mut watch, "one").await.unwrap();
        client.is_served().await;
    });
}

#[test]
fn one_watch_stalls_or_is_reset_and_another_continues() {
    with_client("one-watch", async |stage, mut client| {
        let mut stalled = client.watch("configmaps").await;
        let frozen = stage.proxy.add(Rule::new(watches(), Action::FreezeOpenWatches));
        let mut live = client.watch("configmaps").await;
        assert_eq!(answer(client.create("one")).await.unwrap().0, StatusCode::CREATED);
        until_reported(&mut live, "one").await.unwrap();
        let reported = timeout(QUIET, until_reported(&mut stalled, "one"));
        assert!(reported.await.is_err(), "it is not stalled");
        stage.proxy.remove(frozen);
        until_reported(&mut stalled, "one").await.unwrap();

        let mut others = client.watch("secrets").await;
        assert_eq!(stage.proxy.cut_watches(&watches()), 2);
        for mut watch in [stalled, live] {
            is_reset(
                &until_reported(&mut watch, "two").await.unwrap_err(),
                Reason::INTERNAL_ERROR,
            );
        }
        let secret = ["create", "secret", "generic", "two", "--namespace", "one-watch"];
        stage.control_plane.kubectl(&secret).unwrap();
        until_reported(&mut others, "two").await.unwrap();
    });
}

#[test]
fn request_without_a_window_for_its_end_is_not_forwarded() {
    with_client("no-window", async |stage, mut client| {
        let rule = stage.proxy.add(Rule::new(creates().named("one"), Action::StallRequest));
        let body = object("one");
        let (response, mut stream) = client.begin(Method::POST, &client.path("configmaps"), &body).unwrap();
        stream.reserve_capacity(body.len());
        let mut rest = Bytes::from(body);
        while rest.len() > 1 {
            let window = poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
            stream.send_data(rest.split_to(window), false).unwrap();
        }
        stage.proxy.wait_for_hits(TIMEOUT, rule, 1).unwrap();
        let window = timeout(QUIET, poll_fn(|cx| stream.poll_capacity(cx)));
        assert!(window.await.is_err(), "there is a window");

        assert_eq!(answer(client.create("two")).await.unwrap().0, StatusCode::CREATED);
        assert!(!stage.exists("one"));
        stage.proxy.remove(rule);
        stream.send_data(rest, true).unwrap();
        assert_eq!(answer(response).await.unwrap().0, StatusCode::CREATED);
    });
}

#[test]
fn answer_has_no_body_while_it_is_stalled() {
    with_client("no-data", async |stage, mut client| {
        let rule = stage.proxy.add(Rule::new(creates().named("one"), Action::StallAnswer));
        let stalled = client.create("one").await.unwrap();
        assert_eq!(stalled.status(), StatusCode::CREATED);
        assert!(stage.exists("one"));
        let mut body = stalled.into_body();
        assert!(timeout(QUIET, body.data()).await.is_err(), "it is not stalled");
        assert_eq!(answer(client.create("two")).await.unwrap().0, StatusCode::CREATED);
        stage.proxy.remove(rule);
        until_reported(&mut body, "one").await.unwrap();
    });
}

/// The answer is larger than the windows of the client, which reads it after others.
#[test]
fn answer_that_is_not_read_does_not_delay_others() {
    with_client("not-read", async |stage, mut client| {
        let data = "x".repeat(200_000);
        let large = json!({"metadata": {"name": "large"}, "data": {"data": data}}).to_string();
        let created = client.send(Method::POST, &client.path("configmaps"), &large).0;
        assert_eq!(answer(created).await.unwrap().0, StatusCode::CREATED);
        let path = format!("{}/large", client.path("configmaps"));
        let unread = client.send(Method::GET, &path, "").0;
        stage
            .proxy
            .wait_for(TIMEOUT, |records| count(records, Verb::Get) == 2)
            .unwrap();
        assert_eq!(answer(client.create("one")).await.unwrap().0, StatusCode::CREATED);
        assert!(answer(unread).await.unwrap().1.contains(&data));
    });
}

#[test]
fn reset_ends_all_requests_of_a_connection() {
    with_client("reset-all", async |stage, mut client| {
        let mut watch = client.watch("configmaps").await;
        stage.proxy.add(Rule::new(creates(), Action::Reset));
        let error = answer(client.create("one")).await.unwrap_err();
        assert!(error.is_io(), "{error:?}");
        let error = until_reported(&mut watch, "one").await.unwrap_err();
        assert!(error.is_io(), "{error:?}");
        let ended = timeout(TIMEOUT, client.connection).await.unwrap().unwrap().unwrap_err();
        let kind = ended.get_io().map(std::io::Error::kind);
        assert_eq!(kind, Some(std::io::ErrorKind::ConnectionReset));
        assert!(!stage.exists("one"));
        assert_eq!(stage.proxy.open_watches(&Requests::all()), 0);
    });
}
