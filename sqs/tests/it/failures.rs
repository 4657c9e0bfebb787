//! What a client makes of servers that fail.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sqs::{AddressPolicy, Client, Clients, Credentials, Endpoint, Error, LimitSettings};

use crate::scripted::{Answer, Scripted, client};

/// Limits with which a hung call ends soon.
fn short() -> LimitSettings {
    LimitSettings {
        timeout: Duration::from_millis(200),
        ..LimitSettings::default()
    }
}

/// Makes a call that changes something.
async fn create(client: &Client) -> Result<String, Error> {
    client.create_queue("a", &BTreeMap::new(), &BTreeMap::new()).await
}

/// Asserts that a write may have been carried out, and that a read is just unavailable.
async fn assert_lost(client: &Client) {
    let error = create(client).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    let error = client.queue_url("a").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn request_has_the_headers_of_the_protocol() {
    let server = Scripted::start(|_| Answer::url()).await;
    assert_eq!(create(&server.client(short())).await.unwrap(), "http://queue");
    let request = server.requests.lock().unwrap()[0].clone();
    let host = format!("host: {}\r\n", server.address);
    for part in [
        "POST / HTTP/1.1\r\n",
        "content-type: application/x-amz-json-1.0\r\n",
        "x-amz-target: AmazonSQS.CreateQueue\r\n",
        "authorization: AWS4-HMAC-SHA256 Credential=id/",
        &host,
        "SignedHeaders=content-type;host;x-amz-date;x-amz-target,",
    ] {
        assert!(request.contains(part), "{part:?} is not in {request}");
    }
    assert!(!request.contains("hush"), "{request}");
}

#[tokio::test]
async fn hung_call_ends_and_may_have_been_carried_out() {
    let server = Scripted::start(|_| Answer::Hang).await;
    assert_lost(&server.client(short())).await;
}

#[tokio::test]
async fn closed_connection_after_the_request_may_have_been_carried_out() {
    let server = Scripted::start(|_| Answer::Last(Vec::new())).await;
    assert_lost(&server.client(short())).await;
    // Neither call was sent a second time.
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn cut_or_huge_answers_may_have_been_carried_out() {
    let cut = || Answer::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"QueueUrl\":".to_vec());
    assert_lost(&Scripted::start(move |_| cut()).await.client(short())).await;
    let huge = format!(r#"{{"QueueUrl":"{}"}}"#, "x".repeat(2 << 20));
    let server = Scripted::start(move |_| Answer::status(200, "", &huge)).await;
    assert_lost(&server.client(LimitSettings::default())).await;
}

#[tokio::test]
async fn refused_connection_carries_nothing_out() {
    let address = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let error = create(&client(&format!("http://{address}"), short()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Scripted::start(|_| Answer::url()).await;
    let location = format!("Location: http://{}/\r\n", target.address);
    let server = Scripted::start(move |_| Answer::status(307, &location, "")).await;
    let error = create(&server.client(short())).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(target.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn local_endpoint_is_refused_without_a_connection() {
    let server = Scripted::start(|_| Answer::url()).await;
    let clients = Clients::new(AddressPolicy::RefuseLocal, LimitSettings::default());
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{}", server.address.port());
        let credentials = Arc::new(Credentials::new("id".into(), "hush".into(), None));
        let client = clients.client(Endpoint::parse(&url, "us-east-1").unwrap(), credentials);
        let error = create(&client).await.unwrap_err();
        assert!(matches!(error, Error::AddressNotAllowed { .. }), "{host}: {error}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn connection_is_used_again_and_replaced_when_the_server_has_closed_it() {
    let server = Scripted::start(|number| match number {
        1 => {
            let Answer::Bytes(bytes) = Answer::url() else {
                unreachable!()
            };
            Answer::Last(bytes)
        }
        _ => Answer::url(),
    })
    .await;
    let client = server.client(short());
    create(&client).await.unwrap();
    create(&client).await.unwrap();
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    // The client notices that the connection was closed.
    tokio::time::sleep(Duration::from_millis(50)).await;
    create(&client).await.unwrap();
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn throttling_pauses_all_calls_to_the_endpoint() {
    let server = Scripted::start(|number| match number {
        0 => Answer::status(429, "Retry-After: 30\r\n", ""),
        _ => Answer::url(),
    })
    .await;
    let client = server.client(short());
    for _ in 0..2 {
        let error = create(&client).await.unwrap_err();
        let Error::Throttled {
            retry_after: Some(after),
        } = error
        else {
            panic!("{error}")
        };
        assert!(after > Duration::from_secs(29), "{after:?}");
    }
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn many_calls_to_a_hung_endpoint_end_soon_over_few_connections() {
    let server = Scripted::start(|_| Answer::Hang).await;
    let client = server.client(short());
    let started = Instant::now();
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.queue_url("a").await })
        })
        .collect();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
    let settings = short();
    assert!(started.elapsed() < settings.wait, "{:?}", started.elapsed());
    assert!(server.connections.load(Ordering::SeqCst) <= 2 * settings.concurrency);
    // The breaker is open: a call costs nothing.
    let requests = server.count();
    let error = client.queue_url("a").await.unwrap_err();
    assert!(error.retry_after().is_some(), "{error}");
    assert_eq!(server.count(), requests);
}
