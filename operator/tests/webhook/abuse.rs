//! Clients that mean no good, or are none. After each of them a good one is answered.

use std::time::{Duration, Instant};

use futures::future::join_all;
use operator::webhook::server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use crate::webhook::client::{Caller, PATIENCE, head, read_all, read_line};
use crate::webhook::server::{NAMESPACE, Server, until_ended};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_supports_only_tls_1_3() {
    let server = Server::start(Limits::default());
    let old = Caller::with_versions(server.address, NAMESPACE, &server.bundle, &[&rustls::version::TLS12]);
    let refused = old.post("/", "").await.unwrap_err().to_string();
    assert!(refused.contains("ProtocolVersion"), "{refused}");

    for said in [&b"GET / HTTP/1.1\r\nHost: webhook\r\n\r\n"[..], &[0xff; 4096], b"\0"] {
        let mut plain = server.plain().await;
        plain.write_all(said).await.unwrap();
        plain.shutdown().await.unwrap();
        let answer = until_ended(&mut plain).await;
        assert!(
            answer.len() < 16,
            "an alert at most: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    server.is_well().await;

    let other = Caller::new(server.address, "elsewhere", &server.bundle);
    other.post("/", "").await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_or_invalid_http_is_answered_or_disconnected() {
    let server = Server::start(Limits::default());
    let mut stream = server.caller().connect().await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        .await
        .unwrap();
    assert_eq!(read_all(&mut stream).await.unwrap(), (200, "2\n".into()));

    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    for (garbage, status) in [("\u{0}\u{1}garbage\r\n\r\n", 400), (&*long, 431)] {
        let mut stream = server.caller().connect().await.unwrap();
        // It may end the connection before all is sent.
        let _ = stream.write_all(garbage.as_bytes()).await;
        match read_all(&mut stream).await {
            Ok((said, _)) => assert_eq!(said, status),
            Err(error) => assert!(matches!(
                error.kind(),
                std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe
            )),
        }
    }
    server.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_are_disconnected() {
    let limits = Limits {
        handshake: Duration::from_secs(1),
        head: Duration::from_secs(2),
        request: Duration::from_secs(3),
        ..Limits::default()
    };
    let server = Server::start(limits);
    let caller = server.caller();
    let mut mute = server.plain().await;
    // The first bytes of a handshake.
    mute.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    timed("half a handshake", 1, until_ended(&mut mute)).await;

    let mut silent = caller.connect().await.unwrap();
    timed("no request", 2, until_ended(&mut silent)).await;

    let mut drop_by_drop = caller.connect().await.unwrap();
    let slow_head = async {
        for byte in head("/", 0, "keep-alive").bytes() {
            if drop_by_drop.write_all(&[byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(200)).await;
        }
        until_ended(&mut drop_by_drop).await
    };
    timed("a slow head", 2, slow_head).await;

    let mut second = caller.connect().await.unwrap();
    second.write_all(head("/", 0, "keep-alive").as_bytes()).await.unwrap();
    read_line(&mut second).await.unwrap();
    second.write_all(b"POST /").await.unwrap();
    timed("half of a second head", 2, until_ended(&mut second)).await;

    let mut half = caller.connect().await.unwrap();
    half.write_all(head("/", 100, "keep-alive").as_bytes()).await.unwrap();
    let said = timed("half a body", 3, until_ended(&mut half)).await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");

    let mut stuck = caller.connect().await.unwrap();
    stuck.write_all(head("/stuck", 0, "close").as_bytes()).await.unwrap();
    let said = timed("no answer", 3, until_ended(&mut stuck)).await;
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    server.is_well().await;
}

/// Waits for the end of a connection that is to end after so many seconds, and returns what was said before.
async fn timed(what: &str, seconds: u64, ended: impl Future<Output = Vec<u8>>) -> String {
    let begun = Instant::now();
    let said = ended.await;
    let took = begun.elapsed();
    let least = Duration::from_millis(seconds * 1000 - 200);
    assert!(
        took >= least && took < least + Duration::from_secs(4),
        "{what}: {took:?}"
    );
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_are_rejected() {
    let server = Server::start(Limits::default());
    let caller = server.caller();
    let most = "x".repeat(8 << 20);
    let answer = caller.post("/", &most).await.unwrap();
    assert_eq!(answer, (200, format!("{}\n", most.len())), "what API servers may send");

    let mut announced = caller.connect().await.unwrap();
    announced
        .write_all(head("/", 20 << 20, "close").as_bytes())
        .await
        .unwrap();
    assert_eq!(read_all(&mut announced).await.unwrap().0, 413, "without a byte of it");

    let stream = caller.connect().await.unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    let sending = async {
        let head = "POST / HTTP/1.1\r\nHost: webhook\r\nTransfer-Encoding: chunked\r\n\r\n";
        write.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
        for sent in 1..=20 {
            if write.write_all(chunk.as_bytes()).await.is_err() {
                return sent;
            }
        }
        20
    };
    let (sent, said) = tokio::join!(sending, until_ended(&mut read));
    let said = String::from_utf8_lossy(&said);
    assert!(said.starts_with("HTTP/1.1 413") || said.is_empty(), "{said}");
    assert!(sent < 20 || !said.is_empty(), "not taken to the end");
    server.is_well().await;
}

/// 300 that only connect, 300 that speak TLS and then nothing, 300 that have asked once, and 300 that begin a body. None of them
/// is disconnected for its silence while a good one waits for its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_idle_connections_do_not_block_new_ones() {
    let limits = Limits {
        handshake: 2 * PATIENCE,
        head: 2 * PATIENCE,
        request: 2 * PATIENCE,
        idle: 2 * PATIENCE,
        ..Limits::default()
    };
    let server = Server::start(limits);
    let caller = server.caller();
    let plain = join_all((0..300).map(|_| server.plain())).await;
    server.is_well().await;
    let silent = join_all((0..300).map(|_| caller.connect())).await;
    server.is_well().await;
    let begun = |said: &'static str| {
        let caller = caller.clone();
        join_all((0..300).map(move |_| {
            let caller = caller.clone();
            async move {
                let mut stream = caller.connect().await.ok()?;
                stream.write_all(said.as_bytes()).await.ok()?;
                Some(stream)
            }
        }))
    };
    let asked = begun("POST / HTTP/1.1\r\nHost: webhook\r\nContent-Length: 0\r\n\r\n").await;
    server.is_well().await;
    let half = begun("POST / HTTP/1.1\r\nHost: webhook\r\nContent-Length: 1000\r\n\r\nhalf").await;
    server.is_well().await;
    drop((plain, silent, asked, half));
    server.is_well().await;
}

/// What is large waits for its turn, and no longer than for those that are too slow. What is small does not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_are_processed_one_at_a_time() {
    let limits = Limits {
        request: Duration::from_secs(10),
        ..Limits::default()
    };
    let server = Server::start(limits);
    let caller = server.caller();
    // Just large enough: a busy machine needs time for all of them.
    let large = "x".repeat(2 * limits.small);
    let answers = join_all((0..12).map(|_| caller.post("/", &large))).await;
    for answer in answers {
        assert_eq!(answer.unwrap().0, 200);
    }

    let mut stuck = Vec::new();
    for _ in 0..4 {
        let mut stream = caller.connect().await.unwrap();
        stream.write_all(head("/", 8 << 20, "close").as_bytes()).await.unwrap();
        stream.write_all(large.as_bytes()).await.unwrap();
        stuck.push(stream);
    }
    // Half of the time that the slow ones have: the next one has as much left when its turn comes.
    sleep(limits.request / 2).await;
    server.is_well().await;
    let waits = timeout(Duration::ZERO, stuck[0].read(&mut [0])).await;
    assert!(
        waits.is_err(),
        "the small one was answered while the slow ones were waited for"
    );
    assert_eq!(caller.post("/", &large).await.unwrap().0, 200);
}
