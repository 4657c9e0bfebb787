//! The meaning of a request to a queue service with the protocol of Amazon SQS.

use http::request::Parts;
use serde_json::Value;

use crate::request::{Request, Transport, Verb};

/// The header with the action.
const TARGET: &str = "x-amz-target";

/// Parses a request; returns `None` if it is not one of SQS. The path becomes `/<action>/<queue>`, so that equal reads have
/// equal paths.
pub(crate) fn read(parts: &Parts, body: &[u8]) -> Option<Request> {
    let action = parts.headers.get(TARGET)?.to_str().ok()?.strip_prefix("AmazonSQS.")?;
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| body[field].as_str();
    // The last part of the URL of a queue is its name.
    let of_url = text("QueueUrl").and_then(|url| url.rsplit('/').next());
    let queue = text("QueueName").or(of_url).unwrap_or_default();
    let (namespace, name) = queue.split_once('_').unwrap_or(("", queue));
    Some(Request {
        verb: verb(action),
        method: parts.method.clone(),
        path: format!("/{action}/{queue}"),
        query: String::new(),
        resource: action.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        transport: Transport::default(),
    })
}

fn verb(action: &str) -> Verb {
    match action {
        "GetQueueUrl" | "GetQueueAttributes" | "ListQueueTags" => Verb::Get,
        "ListQueues" => Verb::List,
        "CreateQueue" => Verb::Create,
        "SetQueueAttributes" => Verb::Update,
        "TagQueue" | "UntagQueue" => Verb::Patch,
        "DeleteQueue" => Verb::Delete,
        _ => Verb::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &str, body: &str) -> Option<Request> {
        let request = http::Request::post("/").header(TARGET, target).body(()).unwrap();
        read(&request.into_parts().0, body.as_bytes())
    }

    #[test]
    fn calls_of_sqs_are_parsed() {
        for (target, body, verb, path) in [
            (
                "AmazonSQS.CreateQueue",
                r#"{"QueueName": "shop_orders"}"#,
                Verb::Create,
                "/CreateQueue/shop_orders",
            ),
            (
                "AmazonSQS.DeleteQueue",
                r#"{"QueueUrl": "http://127.0.0.1:9324/000000000000/shop_orders"}"#,
                Verb::Delete,
                "/DeleteQueue/shop_orders",
            ),
        ] {
            let read = parse(target, body).unwrap();
            assert_eq!((read.verb, read.path.as_str()), (verb, path));
            assert_eq!((read.namespace.as_str(), read.name.as_str()), ("shop", "orders"));
            assert!(read.is_of_queue_service());
        }
        assert_eq!(parse("Other.CreateQueue", "{}"), None);
    }
}
