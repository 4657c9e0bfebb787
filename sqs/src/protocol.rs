//! The JSON protocol of SQS: requests and answers, as pure functions.
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html>

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, parse_retry_after};

/// The media type of requests and answers.
pub(crate) const MEDIA_TYPE: &str = "application/x-amz-json-1.0";

/// An action of SQS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub name: &'static str,
    /// Whether it changes nothing.
    pub reads: bool,
}

impl Action {
    pub(crate) const fn read(name: &'static str) -> Self {
        Self { name, reads: true }
    }

    pub(crate) const fn write(name: &'static str) -> Self {
        Self { name, reads: false }
    }

    /// Returns the value of `x-amz-target`.
    pub(crate) fn target(self) -> String {
        format!("AmazonSQS.{}", self.name)
    }
}

/// An answer without content.
#[derive(Debug, Deserialize)]
pub(crate) struct Empty {}

/// The answer of `CreateQueue` and `GetQueueUrl`.
#[derive(Debug, Deserialize)]
pub(crate) struct Url {
    #[serde(rename = "QueueUrl")]
    pub url: String,
}

/// The answer of `GetQueueAttributes`.
#[derive(Debug, Deserialize)]
pub(crate) struct Attributes {
    #[serde(rename = "Attributes")]
    pub attributes: Option<BTreeMap<String, String>>,
}

/// The answer of `ListQueueTags`.
#[derive(Debug, Deserialize)]
pub(crate) struct Tags {
    #[serde(rename = "Tags")]
    pub tags: Option<BTreeMap<String, String>>,
}

/// The answer of `ListQueues`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Queues {
    pub queue_urls: Option<Vec<String>>,
    pub next_token: Option<String>,
}

/// An answer that is not a success.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: Error,
    pub retry_after: Option<std::time::Duration>,
}

/// Parses an answer. `redact` removes secrets from the server's message.
///
/// # Errors
/// With the error that the server answered, or because it is not an answer of SQS.
pub(crate) fn parse<T: DeserializeOwned>(
    action: Action,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    redact: impl Fn(&str) -> String,
) -> Result<T, Failed> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let retry_after = text("retry-after").and_then(parse_retry_after);
    if status.is_success() {
        // Some servers answer an action without a result with an empty body.
        let body = if body.is_empty() { b"{}" } else { body };
        return serde_json::from_slice(body).map_err(|error| Failed {
            error: Error::no_answer(action.reads, format!("the answer is not one of SQS: {error}")),
            retry_after,
        });
    }
    let failure = serde_json::from_slice(body).unwrap_or_else(|_| failure_in_xml(body));
    let of_body = |names: [&str; 2]| names.iter().find_map(|name| failure.get(name)?.as_str());
    // Older clients take the code from the last header.
    let codes = [
        of_body(["__type", "code"]),
        text("x-amzn-errortype"),
        text("x-amzn-query-error"),
    ];
    let code = codes
        .into_iter()
        .flatten()
        .map(plain_code)
        .find(|code| !code.is_empty())
        .unwrap_or_default();
    let message = redact(of_body(["message", "Message"]).unwrap_or_default());
    let error = Error::of_answer(status, code, &message, retry_after, action.reads);
    Err(Failed { error, retry_after })
}

/// Reads a failure in XML, which some servers answer when authentication fails.
fn failure_in_xml(body: &[u8]) -> Value {
    let text = String::from_utf8_lossy(body);
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0)
    };
    json!({ "code": element("Code"), "message": element("Message") })
}

/// Returns the code in `com.amazonaws.sqs#QueueDoesNotExist`, `Code:http://…` or `Code;Sender`.
fn plain_code(code: &str) -> &str {
    let code = code.rsplit_once('#').map_or(code, |(_, code)| code);
    code.split([':', ';']).next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests;
