//! What the operator relies on, shown by both servers: ElasticMQ and moto.
//!
//! What neither of them can show: a name that is refused for 60 seconds after a deletion, attributes and lists that lag
//! behind, and throttling. `protocol/tests.rs` has the answers of AWS for these, and the proxy of the operator's tests plays
//! them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;

use sqs::{Client, Error};
use tokio::net::TcpStream;

use crate::servers::{Name, Server};

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

async fn create<const N: usize>(client: &Client, name: &str, attributes: [(&str, &str); N]) -> String {
    client.create_queue(name, &map(attributes), &map([])).await.unwrap()
}

/// Asserts that the attributes of a queue have these values.
async fn assert_attributes<const N: usize>(client: &Client, url: &str, expected: [(&str, &str); N]) {
    let found = client.attributes(url).await.unwrap();
    for (name, value) in expected {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name} in {found:?}");
    }
}

/// All of 127.0.0.0/8 is on the loopback interface.
pub async fn server_listens_on_the_given_address_only(server: &Server) {
    let url = server.client.endpoint().url();
    let address: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
    TcpStream::connect(address).await.unwrap();
    let other = SocketAddr::from(([127, 0, 0, 2], address.port()));
    let error = TcpStream::connect(other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

pub async fn created_queue_has_its_attributes_and_tags(server: &Server) {
    let client = &server.client;
    let attributes = [
        ("VisibilityTimeout", "45"),
        ("DelaySeconds", "7"),
        ("ReceiveMessageWaitTimeSeconds", "20"),
    ];
    let tags = map([("appdeploy.dev/uid", "4f1c"), ("team", "shop")]);
    let url = client.create_queue("created", &map(attributes), &tags).await.unwrap();
    assert_attributes(client, &url, attributes).await;
    assert_eq!(client.tags(&url).await.unwrap(), tags);
    assert_eq!(client.queue_url("created").await.unwrap(), url);
    // A queue that was created again has another time. moto adds a fraction.
    let attributes = client.attributes(&url).await.unwrap();
    assert!(attributes["CreatedTimestamp"].parse::<f64>().unwrap() > 1.7e9);
    assert!(attributes["QueueArn"].ends_with(":created"), "{attributes:?}");
    assert_eq!(attributes["ApproximateNumberOfMessages"], "0");
}

/// ElasticMQ ignores some attributes, and does not return them either.
pub async fn attributes_that_a_server_does_not_support_are_missing(server: &Server) {
    let client = &server.client;
    let attributes = [("MessageRetentionPeriod", "3600"), ("MaximumMessageSize", "2048")];
    let url = create(client, "retention", attributes).await;
    match server.name {
        Name::Moto => assert_attributes(client, &url, attributes).await,
        Name::ElasticMq => {
            client.set_attributes(&url, &map(attributes)).await.unwrap();
            let found = client.attributes(&url).await.unwrap();
            assert!(
                attributes.iter().all(|(name, _)| !found.contains_key(*name)),
                "{found:?}"
            );
        }
    }
}

pub async fn attributes_that_are_not_set_have_the_defaults_of_sqs(server: &Server) {
    let client = &server.client;
    let url = create(client, "defaults", []).await;
    let defaults = [
        ("VisibilityTimeout", "30"),
        ("DelaySeconds", "0"),
        ("ReceiveMessageWaitTimeSeconds", "0"),
    ];
    assert_attributes(client, &url, defaults).await;
    assert_eq!(client.tags(&url).await.unwrap(), map([]));
}

pub async fn second_creation_returns_the_queue(server: &Server) {
    let client = &server.client;
    let (attributes, tags) = (
        map([("VisibilityTimeout", "45")]),
        map([("appdeploy.dev/uid", "first")]),
    );
    let url = client.create_queue("twice", &attributes, &tags).await.unwrap();
    assert_eq!(client.create_queue("twice", &attributes, &tags).await.unwrap(), url);
    assert_eq!(client.create_queue("twice", &map([]), &map([])).await.unwrap(), url);
    assert_attributes(client, &url, [("VisibilityTimeout", "45")]).await;
    assert_eq!(client.tags(&url).await.unwrap(), tags);
}

/// SQS refuses this, too (<https://github.com/Bogdanp/dramatiq_sqs/pull/13>).
pub async fn second_creation_with_other_tags_is_refused_except_by_moto(server: &Server) {
    let client = &server.client;
    let first = map([("appdeploy.dev/uid", "first")]);
    let url = client.create_queue("claimed", &map([]), &first).await.unwrap();
    let second = map([("appdeploy.dev/uid", "second")]);
    let result = client.create_queue("claimed", &map([]), &second).await;
    let found = client.tags(&url).await.unwrap();
    match server.name {
        Name::ElasticMq => {
            assert!(matches!(result, Err(Error::AttributesDiffer { .. })), "{result:?}");
            assert_eq!(found, first);
        }
        Name::Moto => {
            assert_eq!(result, Ok(url));
            assert_eq!(found, second);
        }
    }
}

pub async fn second_creation_with_other_attributes_is_refused(server: &Server) {
    let client = &server.client;
    let url = create(client, "other", [("VisibilityTimeout", "45")]).await;
    let error = client
        .create_queue("other", &map([("VisibilityTimeout", "46")]), &map([]))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::AttributesDiffer { .. }), "{error}");
    assert_attributes(client, &url, [("VisibilityTimeout", "45")]).await;
}

pub async fn only_named_attributes_are_changed(server: &Server) {
    let client = &server.client;
    let url = create(client, "changed", [("VisibilityTimeout", "45"), ("DelaySeconds", "7")]).await;
    client
        .set_attributes(&url, &map([("VisibilityTimeout", "46")]))
        .await
        .unwrap();
    assert_attributes(client, &url, [("VisibilityTimeout", "46"), ("DelaySeconds", "7")]).await;
}

pub async fn tags_are_added_replaced_and_removed(server: &Server) {
    let client = &server.client;
    let tags = map([("a", "1"), ("b", "2")]);
    let url = client.create_queue("tagged", &map([]), &tags).await.unwrap();
    client.tag(&url, &map([("b", "3"), ("c", "")])).await.unwrap();
    assert_eq!(
        client.tags(&url).await.unwrap(),
        map([("a", "1"), ("b", "3"), ("c", "")])
    );
    client
        .untag(&url, &["a".to_owned(), "unknown".to_owned()])
        .await
        .unwrap();
    assert_eq!(client.tags(&url).await.unwrap(), map([("b", "3"), ("c", "")]));
}

pub async fn calls_about_a_missing_queue_say_so(server: &Server) {
    let client = &server.client;
    let url = create(client, "missing", []).await;
    client.delete(&url).await.unwrap();
    let tags = map([("a", "1")]);
    let results = [
        client.queue_url("missing").await.map(drop),
        client.attributes(&url).await.map(drop),
        client.set_attributes(&url, &map([("VisibilityTimeout", "46")])).await,
        client.tags(&url).await.map(drop),
        client.tag(&url, &tags).await,
        client.untag(&url, &["a".to_owned()]).await,
        client.delete(&url).await,
    ];
    for (number, result) in results.into_iter().enumerate() {
        assert_eq!(result, Err(Error::NoSuchQueue), "call {number}");
    }
}

/// SQS would refuse the name for 60 seconds.
pub async fn deleted_queue_is_missing_and_can_be_created_again(server: &Server) {
    let client = &server.client;
    let first = create(client, "again", [("VisibilityTimeout", "45")]).await;
    client.delete(&first).await.unwrap();
    assert_eq!(client.queue_url("again").await, Err(Error::NoSuchQueue));
    let second = create(client, "again", [("VisibilityTimeout", "46")]).await;
    assert_eq!(first, second);
    assert_attributes(client, &second, [("VisibilityTimeout", "46")]).await;
}

pub async fn fifo_queue_keeps_the_order(server: &Server) {
    let client = &server.client;
    let attributes = [("FifoQueue", "true"), ("ContentBasedDeduplication", "true")];
    let url = create(client, "ordered.fifo", attributes).await;
    assert_attributes(client, &url, attributes).await;
    let sent: Vec<String> = (0..5).map(|number| format!("message {number}")).collect();
    for body in &sent {
        client.send_message(&url, body, Some("group")).await.unwrap();
    }
    let mut received = Vec::new();
    while received.len() < sent.len() {
        let messages = client.receive_messages(&url, 5).await.unwrap();
        assert!(!messages.is_empty(), "only {received:?}");
        for message in messages {
            client.delete_message(&url, &message).await.unwrap();
            received.push(message.body);
        }
    }
    assert_eq!(received, sent);
}

pub async fn message_that_is_received_too_often_moves_to_the_dead_letter_queue(server: &Server) {
    let client = &server.client;
    let dead = create(client, "dead", []).await;
    let arn = client.attributes(&dead).await.unwrap()["QueueArn"].clone();
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":2}}"#);
    let attributes = [("RedrivePolicy", policy.as_str()), ("VisibilityTimeout", "0")];
    let url = create(client, "alive", attributes).await;
    let stored = client.attributes(&url).await.unwrap()["RedrivePolicy"].clone();
    assert!(stored.contains(&arn) && stored.contains("maxReceiveCount"), "{stored}");
    client.send_message(&url, "poison", None).await.unwrap();
    for _ in 0..2 {
        assert_eq!(client.receive_messages(&url, 5).await.unwrap().len(), 1);
    }
    // It moves when it would be received once more.
    assert_eq!(client.receive_messages(&url, 0).await.unwrap(), []);
    let moved = client.receive_messages(&dead, 5).await.unwrap();
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].body, "poison");
    // SQS removes the policy if it is set to an empty text.
    let removed = client.set_attributes(&url, &map([("RedrivePolicy", "")])).await;
    let left = client.attributes(&url).await.unwrap();
    match server.name {
        Name::ElasticMq => assert!(matches!(removed, Err(Error::Refused { .. })), "{removed:?}"),
        Name::Moto => assert!(
            removed.is_ok() && !left.contains_key("RedrivePolicy"),
            "{removed:?} {left:?}"
        ),
    }
}

pub async fn invalid_names_are_refused(server: &Server) {
    let client = &server.client;
    let long = "x".repeat(80);
    let url = create(client, &long, []).await;
    assert_eq!(client.queue_url(&long).await.unwrap(), url);
    for name in [&"x".repeat(81), "with space", "dot.ted", ""] {
        let error = client.create_queue(name, &map([]), &map([])).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{name:?}: {error}");
    }
    // FIFO queues must have a name that ends in .fifo, and others must not.
    let fifo = map([("FifoQueue", "true")]);
    let error = client.create_queue("plain", &fifo, &map([])).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

/// Neither checks the range of all values, so that what SQS refuses may be accepted.
pub async fn invalid_attributes_are_refused(server: &Server) {
    let client = &server.client;
    let (name, value) = match server.name {
        Name::ElasticMq => ("DelaySeconds", "x"),
        Name::Moto => ("MaximumMessageSize", "5"),
    };
    let error = client
        .create_queue("invalid", &map([(name, value)]), &map([]))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(client.queue_url("invalid").await, Err(Error::NoSuchQueue));
}

pub async fn list_returns_queues_with_the_prefix(server: &Server) {
    let client = &server.client;
    assert_eq!(client.list("listed-").await.unwrap(), Vec::<String>::new());
    let mut expected = Vec::new();
    for number in 0..3 {
        expected.push(create(client, &format!("listed-{number}"), []).await);
    }
    create(client, "not-listed", []).await;
    let mut found = client.list("listed-").await.unwrap();
    found.sort();
    assert_eq!(found, expected);
    assert!(client.list("").await.unwrap().len() > 3);
}
