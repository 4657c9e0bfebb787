//! Sends the lists and watches of one kind.

use std::time::Duration;

use http::{Request as HttpRequest, header};
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::body::Bytes;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::{Request, Status};
use tokio::time::timeout;

use super::error::Error;
use super::lines::Lines;

/// How long to wait for an answer, for a page of a list, and for the next of the initial events.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// How long a watch lasts, in seconds. A server that holds it longer would not notice that the client has moved.
const WATCH_LASTS: u32 = 290;

/// The most bytes of an error.
const MAX_ERROR: usize = 64 * 1024;

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'a> {
    /// With all objects, as current as they are when the request arrives, and a bookmark after them (KEP-3157). No version is
    /// named: a server may answer `resourceVersion=0` with objects that its cache had long ago.
    InitialEvents,
    /// After this version.
    Version(&'a str),
}

/// The objects of one kind that a watch selects.
pub(super) struct Collection {
    pub(super) client: Client,
    pub(super) url: String,
    /// Whether the API server sends only the metadata of objects.
    pub(super) only_metadata: bool,
    /// The selectors, and the number of objects per page.
    pub(super) params: ListParams,
}

impl Collection {
    /// Begins a watch.
    pub(super) async fn watch(&self, start: Start<'_>) -> Result<Lines<Body>, Error> {
        let selectors = ListParams {
            limit: None,
            ..self.params.clone()
        };
        let begin = match start {
            Start::InitialEvents => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            Start::Version(version) => format!("resourceVersion={version}"),
        };
        let mut request = self.request(&selectors, "PartialObjectMetadata")?;
        let uri = format!(
            "{}&watch=true&timeoutSeconds={WATCH_LASTS}&allowWatchBookmarks=true&{begin}",
            request.uri()
        );
        *request.uri_mut() = uri.parse().map_err(|error| Error::of(&error))?;
        let what = match start {
            Start::InitialEvents => "a list",
            Start::Version(_) => "a watch",
        };
        Ok(Lines::new(self.send(request, what).await?))
    }

    /// Requests a page of a list. No version is named, so that it is as current as the server's storage.
    pub(super) async fn page(&self, token: Option<&str>) -> Result<Bytes, Error> {
        let params = ListParams {
            continue_token: token.map(ToOwned::to_owned),
            ..self.params.clone()
        };
        let page = async {
            let request = self.request(&params, "PartialObjectMetadataList")?;
            let body = self.send(request, "a list").await?;
            Ok(body.collect().await?.to_bytes())
        };
        timeout(DEADLINE, page)
            .await
            .unwrap_or_else(|_| Err(no_answer("a list")))
    }

    /// Returns a request. `metadata` is the kind of the answer if it has only metadata.
    fn request(&self, params: &ListParams, metadata: &str) -> Result<HttpRequest<Body>, Error> {
        let request = Request::new(self.url.as_str()).list(params);
        let mut request = request.map_err(|error| Error::of(&error))?.map(Body::from);
        if self.only_metadata {
            let accept = format!("application/json;as={metadata};g=meta.k8s.io;v=v1");
            let accept = accept.parse().map_err(|error| Error::of(&error))?;
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        Ok(request)
    }

    async fn send(&self, request: HttpRequest<Body>, what: &str) -> Result<Body, Error> {
        let answer = timeout(DEADLINE, self.client.send(request)).await;
        let (head, body) = answer.map_err(|_| no_answer(what))??.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let text = timeout(DEADLINE, Limited::new(body, MAX_ERROR).collect()).await;
        let text = text
            .ok()
            .and_then(Result::ok)
            .map(Collected::to_bytes)
            .unwrap_or_default();
        // A proxy may answer with text.
        let status = serde_json::from_slice::<Status>(&text).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&text);
            Status::failure(text.trim(), "Failed to parse error data")
        });
        Err(status.with_code(head.status.as_u16()).into())
    }
}

/// Returns the error after a deadline.
pub(super) fn no_answer(request: &str) -> Error {
    Error::new(format!("no answer to {request} within {} s", DEADLINE.as_secs()))
}
