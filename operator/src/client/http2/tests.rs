//! The transport against servers that do what API servers and proxies may do.

mod server;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use h2::Reason;
use http_body_util::BodyExt as _;
use tokio::sync::{Barrier, Notify};

use super::*;
use server::{RawConnection, Server, answer, start};

/// Limits that no test reaches, except those about limits.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

fn transport(server: &Server, limits: Limits) -> Transport {
    let mut config = Config::new(server.url.parse().unwrap());
    config.root_cert = Some(vec![server.certificate.clone()]);
    config.connect_timeout = Some(limits.connect);
    config.read_timeout = Some(limits.silence);
    config.default_retry = false;
    Transport::new(config).unwrap()
}

fn patient(server: &Server) -> Transport {
    let (connect, silence) = (LONG, LONG);
    transport(server, Limits { connect, silence })
}

fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

fn post(uri: &str) -> Request<Body> {
    Request::post(uri).body(Body::from(b"{}".to_vec())).unwrap()
}

/// Sends a request, and returns the body of the response.
async fn text(transport: &Transport, request: Request<Body>) -> Result<String, BoxError> {
    let body = transport.send(request).await?.into_body();
    Ok(String::from_utf8(body.collect_bytes().await?.to_vec())?)
}

/// Whether an error is due to one of this kind.
fn is_caused_by(error: &BoxError, kind: io::ErrorKind) -> bool {
    let first: &(dyn std::error::Error + 'static) = &**error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    causes.any(|error| {
        error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == kind)
    })
}

/// The server answers when all requests have arrived.
#[tokio::test]
async fn concurrent_requests_share_a_connection_and_watches_have_their_own() {
    let all = Arc::new(Barrier::new(60));
    let server = Server::start(move |connection, _| {
        let all = all.clone();
        start(connection).each(move |request, respond| {
            let all = all.clone();
            async move {
                all.wait().await;
                answer(respond, request.uri().path());
            }
        })
    })
    .await;
    let transport = patient(&server);
    let requests = (0..60).map(|n| {
        let watch = if n < 10 { "?watch=true" } else { "" };
        text(&transport, get(&format!("/{n}{watch}")))
    });
    for (n, answer) in join_all(requests).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), format!("/{n}"));
    }
    assert_eq!(server.connections(), 2);
}

/// The server's limit is ten streams, and it answers in groups of twenty.
#[tokio::test]
async fn requests_above_the_limit_of_streams_use_a_second_connection_or_wait() {
    let group = Arc::new(Barrier::new(20));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running_now, seen) = (running.clone(), most.clone());
    let server = Server::start(move |connection, _| {
        let (group, running, most) = (group.clone(), running_now.clone(), seen.clone());
        start(connection).limited_to(10).each(move |_, respond| {
            let (group, running, most) = (group.clone(), running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                group.wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
                answer(respond, "done");
            }
        })
    })
    .await;
    let transport = patient(&server);
    let requests = (0..60).map(|_| text(&transport, post("/")));
    for answer in join_all(requests).await {
        assert_eq!(answer.unwrap(), "done");
    }
    assert_eq!(server.connections(), 2);
    assert!(most.load(Ordering::SeqCst) <= 20);
}

#[tokio::test]
async fn watches_above_the_limit_of_streams_do_not_wait() {
    let all = Arc::new(Barrier::new(35));
    let server = Server::start(move |connection, _| {
        let all = all.clone();
        start(connection).limited_to(10).each(move |_, respond| {
            let all = all.clone();
            async move {
                all.wait().await;
                answer(respond, "event");
            }
        })
    })
    .await;
    let transport = patient(&server);
    let watches = (0..35).map(|_| text(&transport, get("/pods?watch=true")));
    assert!(join_all(watches).await.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(server.connections(), 4);
}

/// The first connection is shut down while a request is running.
#[tokio::test]
async fn running_request_finishes_after_goaway_and_the_next_one_uses_another_connection() {
    let (shut_down, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_shut_down, finished) = (shut_down.clone(), finish.clone());
    let server = Server::start(move |connection, number| {
        if number == 0 {
            return RawConnection::new(connection).shut_down_then_answer(shut_down.clone(), finish.clone());
        }
        start(connection).each(|_, respond| {
            answer(respond, "next");
            async {}
        })
    })
    .await;
    let transport = patient(&server);
    let slow = transport.clone();
    let slow = tokio::spawn(async move { text(&slow, post("/")).await });
    is_shut_down.notified().await;
    assert_eq!(text(&transport, post("/")).await.unwrap(), "next");
    finished.notify_one();
    assert_eq!(slow.await.unwrap().unwrap(), "");
    assert_eq!(server.connections(), 2);
}

/// Counts requests to a server whose first connections do something else with them.
async fn sent_to(
    connections: usize,
    first: impl Fn(RawConnection) -> server::Served + Send + Sync + 'static,
) -> (usize, Result<String, BoxError>) {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = posts.clone();
    let server = Server::start(move |connection, number| {
        if number < connections {
            return first(RawConnection::new(connection));
        }
        let posts = counted.clone();
        start(connection).each(move |_, respond| {
            posts.fetch_add(1, Ordering::SeqCst);
            answer(respond, "created");
            async {}
        })
    })
    .await;
    let answer = text(&patient(&server), post("/")).await;
    (posts.load(Ordering::SeqCst), answer)
}

#[tokio::test]
async fn write_that_goaway_excludes_is_sent_again() {
    let excluded = |connection: RawConnection| connection.until_request(|_| server::go_away(0));
    let (sent, answer) = sent_to(3, excluded).await;
    assert_eq!((sent, answer.unwrap().as_str()), (1, "created"));
    let (sent, answer) = sent_to(4, excluded).await;
    assert!(sent == 0 && crate::watch::chain(&*answer.unwrap_err()).contains("did not process the request"));
}

#[tokio::test]
async fn write_that_goaway_includes_is_not_sent_again() {
    let (sent, answer) = sent_to(1, |connection| connection.until_request(server::go_away)).await;
    assert!(sent == 0 && answer.is_err());
}

#[tokio::test]
async fn write_is_not_sent_again_when_its_connection_ends() {
    let (sent, answer) = sent_to(1, |connection| connection.until_request(|_| Vec::new())).await;
    assert!(sent == 0 && answer.is_err());
}

/// Answers each request with a reset, and counts them.
async fn resets(reason: Reason) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let server = Server::start(move |connection, _| {
        let counted = counted.clone();
        start(connection).each(move |_, mut respond| {
            counted.fetch_add(1, Ordering::SeqCst);
            respond.send_reset(reason);
            async {}
        })
    })
    .await;
    assert!(text(&patient(&server), post("/")).await.is_err());
    assert_eq!(server.connections(), 1);
    count.load(Ordering::SeqCst)
}

#[tokio::test]
async fn refused_write_is_sent_again_once_and_a_reset_one_is_not() {
    assert_eq!(resets(Reason::REFUSED_STREAM).await, 2);
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR] {
        assert_eq!(resets(reason).await, 1, "{reason}");
    }
}

/// The other request runs on the same connection before and after.
#[tokio::test]
async fn dropped_request_resets_its_stream_only() {
    let arrived = Arc::new(Barrier::new(3));
    let canceled = Arc::new(Notify::new());
    let (all_arrived, was_canceled) = (arrived.clone(), canceled.clone());
    let server = Server::start(move |connection, _| {
        let (arrived, canceled) = (all_arrived.clone(), was_canceled.clone());
        start(connection).each(move |request, mut respond| {
            let (arrived, canceled) = (arrived.clone(), canceled.clone());
            async move {
                if request.uri().path() == "/next" {
                    return answer(respond, "next");
                }
                arrived.wait().await;
                if request.uri().path() == "/dropped" {
                    let reset = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                    assert_eq!(reset.unwrap(), Reason::CANCEL);
                    canceled.notify_one();
                } else {
                    canceled.notified().await;
                    answer(respond, "kept");
                }
            }
        })
    })
    .await;
    let transport = patient(&server);
    let send = |uri: &'static str| {
        let transport = transport.clone();
        tokio::spawn(async move { text(&transport, get(uri)).await })
    };
    let (dropped, kept) = (send("/dropped"), send("/kept"));
    arrived.wait().await;
    dropped.abort();
    assert_eq!(kept.await.unwrap().unwrap(), "kept");
    // A PING has shown that the server still answers.
    assert_eq!(text(&transport, get("/next")).await.unwrap(), "next");
    assert_eq!(server.connections(), 1);
}

/// Ninety-nine watches have more events than fit into their windows, and read none.
#[tokio::test]
async fn watches_that_are_not_read_do_not_delay_others() {
    let server = Server::start(|connection, _| start(connection).send_forever()).await;
    let transport = patient(&server);
    let watches = (0..100).map(|n| transport.send(get(&format!("/{n}?watch=true"))));
    let mut watches: Vec<_> = join_all(watches).await.into_iter().map(Result::unwrap).collect();
    let mut body = watches.pop().unwrap().into_body();
    let mut received = 0;
    while received < 1 << 20 {
        received += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    assert_eq!(server.connections(), 1);
}

/// Each dropped response had filled its window, and together they exceed that of the connection.
#[tokio::test]
async fn dropped_responses_free_their_windows() {
    let server = Server::start(|connection, _| start(connection).send_forever()).await;
    let transport = patient(&server);
    for _ in 0..20 {
        let mut body = transport.send(get("/")).await.unwrap().into_body();
        let mut received = 0;
        while received < 1 << 20 {
            received += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
        }
    }
    assert_eq!(server.connections(), 1);
}

/// The silent one ends with an error; the other one is on the same connection.
#[tokio::test]
async fn silent_response_ends_and_others_do_not() {
    let server = Server::start(|connection, _| start(connection).send_once_or_forever("/silent")).await;
    let silence = SHORT;
    let transport = transport(&server, Limits { connect: LONG, silence });
    let silent = text(&transport, get("/silent?watch=true"));
    let mut live = transport.send(get("/live?watch=true")).await.unwrap().into_body();
    let error = silent.await.unwrap_err();
    assert!(is_caused_by(&error, io::ErrorKind::TimedOut), "{error:?}");
    assert!(live.frame().await.unwrap().is_ok());
    assert_eq!(server.connections(), 1);
}

/// The first connection is still open for TCP, but nothing reads it.
async fn half_dead() -> Server {
    Server::start(|connection, number| {
        if number == 0 {
            return RawConnection::new(connection).until_request_then_hang();
        }
        start(connection).each(|_, respond| {
            answer(respond, "alive");
            async {}
        })
    })
    .await
}

#[tokio::test]
async fn dead_connection_is_closed_and_replaced() {
    let server = half_dead().await;
    let (connect, silence) = (SHORT, LONG);
    let transport = transport(&server, Limits { connect, silence });
    assert!(text(&transport, post("/")).await.is_err());
    assert_eq!(text(&transport, post("/")).await.unwrap(), "alive");
    assert_eq!(server.connections(), 2);
}

/// The leader has time for further attempts then, although the dead connection is not closed yet.
#[tokio::test]
async fn request_without_an_answer_delays_the_next_one_by_a_ping_at_most() {
    let server = half_dead().await;
    let (connect, silence) = (LONG / 10, LONG);
    let transport = transport(&server, Limits { connect, silence });
    let unanswered = timeout(SHORT, text(&transport, post("/"))).await;
    assert!(unanswered.is_err());
    let next = timeout(connect, text(&transport, post("/"))).await.unwrap();
    assert_eq!(next.unwrap(), "alive");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn server_without_http2_is_used_with_http1() {
    let server = Server::without_http2().await;
    let transport = patient(&server);
    for _ in 0..3 {
        assert_eq!(text(&transport, get("/")).await.unwrap(), "HTTP/1.1");
        assert_eq!(text(&transport, get("/?watch=true")).await.unwrap(), "HTTP/1.1");
    }
}

#[tokio::test]
async fn all_requests_that_wait_for_a_connection_fail_with_it() {
    let server = Server::start(|connection, _| start(connection).send_forever()).await;
    let mut config = Config::new(server.url.parse().unwrap());
    config.root_cert = Some(vec![Server::without_http2().await.certificate]);
    let transport = Transport::new(config).unwrap();
    for answer in join_all((0..10).map(|_| text(&transport, get("/")))).await {
        let error = crate::watch::chain(&*answer.unwrap_err());
        assert!(error.contains("failed to connect to the API server"), "{error}");
        assert!(error.contains("invalid peer certificate"), "{error}");
    }
    assert_eq!(server.connections(), 1, "attempts");
}

/// No request is answered until the Lease is.
#[tokio::test]
async fn lease_does_not_wait_for_other_requests() {
    let renewed = Arc::new(tokio::sync::Semaphore::new(0));
    let server = Server::start(move |connection, _| {
        let renewed = renewed.clone();
        start(connection).limited_to(10).each(move |request, respond| {
            let renewed = renewed.clone();
            async move {
                if request.uri().path().ends_with("/leases") {
                    renewed.add_permits(100);
                } else {
                    renewed.acquire().await.unwrap().forget();
                }
                answer(respond, "done");
            }
        })
    })
    .await;
    let transport = patient(&server);
    let mut requests = Box::pin(join_all((0..50).map(|_| text(&transport, post("/")))));
    assert!(timeout(SHORT, &mut requests).await.is_err());
    let lease = get("/apis/coordination.k8s.io/v1/namespaces/appdeploy-system/leases");
    assert_eq!(text(&transport, lease).await.unwrap(), "done");
    assert!(requests.await.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(server.connections(), 3);
}
