//! Elections with a function as API server and the clock of the test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::metrics::Metrics;

/// What happens to a request.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// It does not reach the API server.
    Lost,
    /// It is carried out, and the answer is lost.
    AnswerLost,
    /// It is carried out, and then the holder renews the Lease.
    ThenRenewed,
}

/// An API server with one Lease, which it refuses to watch.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    requests: AtomicUsize,
}

impl Server {
    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        let lease = lease.as_ref().unwrap();
        lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }

    fn store(&self, mut lease: Value) -> Value {
        let mut stored = self.lease.lock().unwrap();
        let version = stored.as_ref().map_or(1, |lease| version(lease) + 1);
        lease["metadata"]["resourceVersion"] = json!(version.to_string());
        *stored = Some(lease.clone());
        lease
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (StatusCode, Value) {
        let refused = |code: u16| {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no",
                "reason": if code == 404 { "NotFound" } else { "Conflict" }});
            (StatusCode::from_u16(code).unwrap(), status)
        };
        let stored = self.lease.lock().unwrap().clone();
        match (method, stored) {
            (&Method::GET, Some(lease)) => (StatusCode::OK, lease),
            (&Method::POST, None) => (StatusCode::CREATED, self.store(serde_json::from_slice(body).unwrap())),
            (_, Some(stored)) => {
                let sent: Value = serde_json::from_slice(body).unwrap();
                if version(&sent) == version(&stored) {
                    (StatusCode::OK, self.store(sent))
                } else {
                    refused(409)
                }
            }
            (_, None) => refused(404),
        }
    }
}

fn version(lease: &Value) -> u64 {
    lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Returns an elector with a Lease of 15 s. `fault` returns what happens to a request, by its method and number.
fn elector(fault: impl Fn(&Method, usize) -> Fault + Send + Sync + 'static) -> (Arc<Server>, Elector, Fence) {
    let (server, elector, fence, _) = candidate(fault);
    (server, elector, fence)
}

/// Like [`elector`]. Returns also whether it leads.
fn candidate(
    fault: impl Fn(&Method, usize) -> Fault + Send + Sync + 'static,
) -> (Arc<Server>, Elector, Fence, Leadership) {
    let server = Arc::new(Server::default());
    let (known, fault) = (server.clone(), Arc::new(fault));
    let service = service_fn(move |request: http::Request<Body>| {
        let (server, fault) = (known.clone(), fault.clone());
        async move {
            let (head, body) = request.into_parts();
            let is_watch = head.uri.query().is_some_and(|query| query.contains("watch=true"));
            if is_watch {
                let refused = Response::builder().status(StatusCode::FORBIDDEN);
                return Ok::<_, std::convert::Infallible>(refused.body(Body::empty()).unwrap());
            }
            let body = body.collect().await.unwrap().to_bytes();
            let fault = fault(&head.method, server.requests.fetch_add(1, Ordering::SeqCst));
            if fault == Fault::Lost {
                std::future::pending::<()>().await;
            }
            let (code, answer) = server.answer(&head.method, &body);
            if fault == Fault::AnswerLost {
                std::future::pending::<()>().await;
            }
            if fault == Fault::ThenRenewed {
                server.store(answer.clone());
            }
            let answer = Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()));
            Ok(answer.unwrap())
        }
    });
    let timings = Timings::of(Duration::from_secs(15));
    let fence = Fence::closed(timings.grace);
    let metrics = Arc::new(Metrics::default());
    let client = Client::new(service, "default");
    let (elector, leadership) = Elector::new(client, metrics, "system".into(), "me".into(), timings, fence.clone());
    (server, elector, fence, leadership)
}

/// Whether it leads the whole time.
async fn leads_for(seconds: u64, elector: &Elector) -> bool {
    timeout(Duration::from_secs(seconds), elector.run()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn leader_survives_a_dead_connection() {
    for lost in [Fault::Lost, Fault::AnswerLost] {
        // The Lease is read and created; then two requests in a row get no answer.
        let (server, elector, fence) = elector(move |_, number| match number {
            2 | 3 => lost,
            _ => Fault::None,
        });
        assert!(leads_for(60, &elector).await);
        assert!(fence.is_open());
        assert_eq!(server.holder(), "me");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_ends() {
    let (server, elector, fence) = elector(|_, number| if number < 2 { Fault::None } else { Fault::Lost });
    let begun = Instant::now();
    elector.run().await;
    assert!(!fence.is_open());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(server.holder(), "me");
}

/// The renewal was running when the leader ended.
#[tokio::test(start_paused = true)]
async fn lease_is_released_after_a_late_renewal() {
    let (server, elector, fence) = elector(|_, number| match number {
        // The next read.
        4 => Fault::ThenRenewed,
        _ => Fault::None,
    });
    assert!(leads_for(5, &elector).await);
    assert_eq!(
        server.requests.load(Ordering::SeqCst),
        4,
        "read, created, renewed twice"
    );
    elector.release().await;
    assert_eq!(server.holder(), "");
    assert!(!fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn leader_knows_since_when_it_leads() {
    let (_, elector, _, leadership) = candidate(|_, _| Fault::None);
    assert!(leadership.attempted().now_or_never().is_none());
    let begun = Instant::now();
    assert!(leads_for(60, &elector).await);
    let since = leadership.acquired().now_or_never();
    assert_eq!(since, Some(begun), "renewals do not change it");
    assert!(leadership.attempted().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn first_attempt_ends_although_the_server_does_not_answer() {
    let (_, elector, _, leadership) = candidate(|_, _| Fault::Lost);
    assert!(leads_for(10, &elector).await, "it has not led");
    assert!(leadership.attempted().now_or_never().is_some());
    assert!(leadership.acquired().now_or_never().is_none());
}
