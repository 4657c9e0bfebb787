//! What the server does for those who behave.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use futures::future::join_all;
use jiff::Timestamp;
use operator::webhook::served::Served;
use operator::webhook::server::{Limits, serve};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::webhook::client::{Caller, head, read_all, read_line};
use crate::webhook::server::{NAMESPACE, Server, certificate, until_ended};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_is_kept_for_the_next_request() {
    let limits = Limits {
        head: Duration::from_secs(1),
        ..Limits::default()
    };
    let server = Server::start(limits);
    let mut stream = server.caller().connect().await.unwrap();
    for _ in 0..3 {
        stream.write_all(head("/", 2, "keep-alive").as_bytes()).await.unwrap();
        stream.write_all(b"hi").await.unwrap();
        assert_eq!(read_line(&mut stream).await.unwrap(), (200, "2\n".into()));
        // hyper alone would end it after the time for a head.
        sleep(Duration::from_millis(1500)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_requests_are_not_aborted_for_new_connections() {
    let limits = Limits {
        connections: 8,
        ..Limits::default()
    };
    let server = Server::start(limits);
    let caller = server.caller();
    let slow = tokio::spawn(async move { join_all((0..8).map(|_| caller.post("/slow", ""))).await });
    sleep(Duration::from_millis(500)).await;
    let others = join_all((0..30).map(|_| server.plain())).await;
    for answer in slow.await.unwrap() {
        assert_eq!(answer.unwrap(), (200, "at last\n".into()));
    }
    drop(others);
    server.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_of_a_handler_is_answered() {
    let server = Server::start(Limits::default());
    assert_eq!(server.caller().post("/panic", "").await.unwrap().0, 500);
    server.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_requests_are_answered_at_shutdown() {
    let server = Server::start(Limits::default());
    let caller = server.caller();
    let mut idle = caller.connect().await.unwrap();
    idle.write_all(head("/", 0, "keep-alive").as_bytes()).await.unwrap();
    read_line(&mut idle).await.unwrap();
    let mut slow = caller.connect().await.unwrap();
    slow.write_all(head("/slow", 0, "keep-alive").as_bytes()).await.unwrap();
    sleep(Duration::from_millis(300)).await;
    server.end.send(()).unwrap();
    assert!(
        until_ended(&mut idle).await.is_empty(),
        "nothing was asked, and nothing said"
    );
    assert_eq!(read_all(&mut slow).await.unwrap(), (200, "at last\n".into()));
    timeout(Duration::from_secs(5), server.running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    caller.connect().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_certificate_is_used_for_new_connections_only() {
    let served = Served::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/", post(async || "ok\n"));
    let serving = serve(
        listener,
        served.clone(),
        routes,
        Limits::default(),
        std::future::pending(),
    );
    let serving = tokio::spawn(serving);
    let stranger = Caller::new(address, NAMESPACE, &certificate(&Served::default()));
    stranger.post("/", "").await.unwrap_err();
    assert_eq!(served.expires_at(), None);

    let first = certificate(&served);
    let in_ninety_days = Timestamp::now().as_second() + 90 * 24 * 60 * 60;
    assert!((served.expires_at().unwrap() - in_ninety_days).abs() < 10);
    let caller = Caller::new(address, NAMESPACE, &first);
    let mut stream = caller.connect().await.unwrap();
    let second = certificate(&served);
    stream.write_all(head("/", 0, "keep-alive").as_bytes()).await.unwrap();
    assert_eq!(read_line(&mut stream).await.unwrap(), (200, "ok\n".into()));
    caller.post("/", "").await.unwrap_err();
    Caller::new(address, NAMESPACE, &second).post("/", "").await.unwrap();
    serving.abort();
}
