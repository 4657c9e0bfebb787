//! Calls of SQS.

#[cfg(feature = "messages")]
pub(crate) mod messages;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connect::{Http, Refused};
use crate::credentials::Credentials;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::limits::{Limits, Outcome};
use crate::protocol::{Action, Attributes, Empty, Failed, MEDIA_TYPE, Queues, Tags, Url, parse};
use crate::sign::{self, Scope, authorization};

/// The most bytes of an answer that are read.
const ANSWER: usize = 1 << 20;

/// A client for an endpoint with credentials. Cheap to clone.
///
/// All calls wait for their turn in the limits of the endpoint, and end within its deadlines
/// ([`LimitSettings`](crate::LimitSettings)). They are sent at most once; a caller that drops a call does not know whether it
/// was carried out.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) http: Http,
    pub(crate) limits: Arc<Limits>,
    pub(crate) no_roots: Option<Arc<str>>,
    pub(crate) endpoint: Endpoint,
    pub(crate) credentials: Arc<Credentials>,
}

impl Client {
    /// Returns the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the URL of a queue (`GetQueueUrl`).
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn queue_url(&self, name: &str) -> Result<String, Error> {
        let url: Url = self
            .call(Action::read("GetQueueUrl"), json!({ "QueueName": name }))
            .await?;
        Ok(url.url)
    }

    /// Creates a queue, and returns its URL (`CreateQueue`). If a queue with the same attributes exists, returns its URL;
    /// its tags may be others.
    ///
    /// # Errors
    /// [`Error::AttributesDiffer`] if a queue with other attributes exists, [`Error::DeletedRecently`] if the name can't be
    /// used yet.
    pub async fn create_queue(
        &self,
        name: &str,
        attributes: &BTreeMap<String, String>,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, Error> {
        // SQS spells this one in lower case.
        let body = json!({ "QueueName": name, "Attributes": attributes, "tags": tags });
        let url: Url = self.call(Action::write("CreateQueue"), body).await?;
        Ok(url.url)
    }

    /// Returns all attributes of a queue (`GetQueueAttributes`).
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn attributes(&self, url: &str) -> Result<BTreeMap<String, String>, Error> {
        let body = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
        let answer: Attributes = self.call(Action::read("GetQueueAttributes"), body).await?;
        Ok(answer.attributes.unwrap_or_default())
    }

    /// Changes attributes of a queue (`SetQueueAttributes`). Those that are not in `attributes` are kept.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn set_attributes(&self, url: &str, attributes: &BTreeMap<String, String>) -> Result<(), Error> {
        let body = json!({ "QueueUrl": url, "Attributes": attributes });
        self.write("SetQueueAttributes", body).await
    }

    /// Returns all tags of a queue (`ListQueueTags`).
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn tags(&self, url: &str) -> Result<BTreeMap<String, String>, Error> {
        let answer: Tags = self
            .call(Action::read("ListQueueTags"), json!({ "QueueUrl": url }))
            .await?;
        Ok(answer.tags.unwrap_or_default())
    }

    /// Adds tags to a queue, and replaces those with the same key (`TagQueue`).
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn tag(&self, url: &str, tags: &BTreeMap<String, String>) -> Result<(), Error> {
        let body = json!({ "QueueUrl": url, "Tags": tags });
        self.write("TagQueue", body).await
    }

    /// Removes tags from a queue (`UntagQueue`).
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn untag(&self, url: &str, keys: &[String]) -> Result<(), Error> {
        let body = json!({ "QueueUrl": url, "TagKeys": keys });
        self.write("UntagQueue", body).await
    }

    /// Deletes a queue with all its messages (`DeleteQueue`).
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] if it does not exist.
    pub async fn delete(&self, url: &str) -> Result<(), Error> {
        self.write("DeleteQueue", json!({ "QueueUrl": url })).await
    }

    /// Returns the URLs of all queues whose name begins with `prefix` (`ListQueues`). New and deleted queues are missing or
    /// listed for up to a minute.
    ///
    /// # Errors
    /// With the error of the first page that fails.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let mut urls = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut body = json!({ "MaxResults": 1000 });
            if !prefix.is_empty() {
                body["QueueNamePrefix"] = json!(prefix);
            }
            if let Some(token) = &next {
                body["NextToken"] = json!(token);
            }
            let page: Queues = self.call(Action::read("ListQueues"), body).await?;
            urls.extend(page.queue_urls.unwrap_or_default());
            match page.next_token.filter(|token| !token.is_empty()) {
                // A server that repeats its token would never end.
                Some(token) if next.as_ref() != Some(&token) => next = Some(token),
                _ => return Ok(urls),
            }
        }
    }

    /// Sends a call whose answer is empty.
    pub(crate) async fn write(&self, action: &'static str, body: Value) -> Result<(), Error> {
        let Empty {} = self.call(Action::write(action), body).await?;
        Ok(())
    }

    /// Sends a call when its turn has come, and records what it shows about the endpoint.
    async fn call<T: DeserializeOwned>(&self, action: Action, body: Value) -> Result<T, Error> {
        if let Some(why) = &self.no_roots {
            return Err(Error::Unavailable {
                why: why.to_string(),
                retry_after: None,
            });
        }
        let permit = self.limits.enter().await?;
        let limit = self.limits.timeout();
        let result = match timeout(limit, self.send(action, &body)).await {
            Ok(result) => result,
            Err(_) => Err(Failed {
                error: Error::no_answer(action.reads, format!("no answer within {} s", limit.as_secs())),
                retry_after: None,
            }),
        };
        let (outcome, why) = match &result {
            Err(Failed {
                error: Error::Unavailable { why, .. } | Error::Lost { why },
                retry_after,
            }) => (Outcome::Failed(*retry_after), why.as_str()),
            Err(Failed {
                error: Error::Throttled { .. },
                retry_after,
            }) => (Outcome::Throttled(*retry_after), ""),
            _ => (Outcome::Answered, ""),
        };
        let pause = permit.finish(outcome, why);
        result.map_err(|failed| match failed.error {
            Error::Throttled { .. } => Error::Throttled { retry_after: pause },
            error => error,
        })
    }

    async fn send<T: DeserializeOwned>(&self, action: Action, body: &Value) -> Result<T, Failed> {
        let failed = |error| Failed {
            error,
            retry_after: None,
        };
        let request = self.request(action, body.to_string()).map_err(|error| {
            // Only credentials can have characters that a header can't.
            failed(Error::Denied {
                code: "InvalidCredentials".to_owned(),
                message: error.to_string(),
            })
        })?;
        let answer = self.http.request(request).await.map_err(|error| {
            let refused = causes(&error).find_map(|cause| {
                let error = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
                error.and_then(|error| error.downcast_ref::<Refused>())
            });
            let why = causes(&error).last().map(ToString::to_string).unwrap_or_default();
            failed(match refused {
                Some(Refused(address)) => Error::AddressNotAllowed { address: *address },
                // Without a connection nothing was sent.
                None => Error::no_answer(action.reads || error.is_connect(), why),
            })
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER).collect().await.map_err(|error| {
            failed(Error::no_answer(
                action.reads,
                format!("the answer can't be read: {error}"),
            ))
        })?;
        parse(action, head.status, &head.headers, &body.to_bytes(), |text| {
            self.credentials.redact(text)
        })
    }

    /// Returns a signed request.
    fn request(&self, action: Action, body: String) -> Result<Request<Full<Bytes>>, http::Error> {
        let target = action.target();
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut headers = vec![
            ("content-type", MEDIA_TYPE),
            ("host", self.endpoint.host_header()),
            ("x-amz-date", time.as_str()),
            ("x-amz-target", target.as_str()),
        ];
        if let Some(token) = self.credentials.session_token() {
            headers.push(("x-amz-security-token", token));
        }
        let unsigned = sign::Request {
            method: "POST",
            path: "/",
            headers: &headers,
            body: body.as_bytes(),
        };
        let scope = Scope {
            region: self.endpoint.region(),
            service: "sqs",
            time: &time,
        };
        let signature = authorization(&unsigned, &scope, &self.credentials);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/", self.endpoint.url()))
            .header("authorization", signature)
            .header("user-agent", concat!("appdeploy-sqs/", env!("CARGO_PKG_VERSION")));
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(Full::new(Bytes::from(body)))
    }
}

/// Returns an error and its causes.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}
