//! Sends the lists and watches of one kind.

use std::ops::Range;
use std::time::Duration;

use http::{HeaderValue, Request as HttpRequest, Response, header};
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::body::Bytes;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::error::Error;
use super::stream::{EventStream, Framing};
use super::versions;
use crate::call::status;
use crate::protobuf;

/// How long to wait for an answer, and for a page of a list.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long a watch lasts, in seconds. Each has another time, as those of client-go have, so that watches that began at the same time
/// do not end at the same time. The rights are checked when it begins.
const WATCH_LASTS: Range<u32> = 300..600;

/// Objects per page. The client requests fewer if a page is too large ([`PageLimit`](crate::pages::PageLimit)).
const PAGE: u32 = 250;

/// Objects per page of a list of versions.
const VERSIONS_PAGE: u32 = 500;

/// The forms in which the API server sends only the metadata of objects.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The most bytes of an error.
const MAX_ERROR: usize = 64 * 1024;

/// The objects of one kind that a watch selects.
#[derive(Clone)]
pub(crate) struct Collection {
    pub(crate) client: Client,
    pub(crate) url: String,
    /// Whether the API server sends only the metadata of objects.
    pub(crate) only_metadata: bool,
    pub(crate) selectors: ListParams,
}

/// The pages of a list, of which one was requested. The API server answers while the caller stores the objects of the page before.
pub(super) struct Pages {
    collection: Collection,
    form: Form,
    request: JoinSet<Result<Bytes, Error>>,
}

/// What a list has of each object.
#[derive(Clone, Copy)]
enum Form {
    /// What is watched of it, as JSON.
    Json,
    /// The same as protobuf.
    Protobuf,
    /// Its name and its version.
    Versions,
}

impl Collection {
    /// Begins a watch after a version, preferably of events in protobuf.
    pub(crate) async fn watch(&self, version: &str, as_protobuf: bool) -> Result<EventStream<Body>, Error> {
        let accept = as_protobuf.then_some(protobuf::ACCEPT);
        let accept = accept.or(self.only_metadata.then_some(METADATA));
        let mut request = self.request(&self.selectors, accept)?;
        let uri = format!(
            "{}&watch=true&timeoutSeconds={}&allowWatchBookmarks=true&resourceVersion={version}",
            request.uri(),
            fastrand::u32(WATCH_LASTS)
        );
        *request.uri_mut() = uri.parse().map_err(|error| Error::of(&error))?;
        let (head, body) = self.send(request, "a watch").await?.into_parts();
        let content = head
            .headers
            .get(header::CONTENT_TYPE)
            .map_or(&[][..], HeaderValue::as_bytes);
        let framing = if content.starts_with(protobuf::CONTENT_TYPE.as_bytes()) {
            Framing::Lengths
        } else {
            Framing::Lines
        };
        Ok(EventStream::new(body, framing))
    }

    /// Requests the first page of a list of the objects, preferably as protobuf.
    pub(super) fn pages(&self, as_protobuf: bool) -> Pages {
        self.begin(if as_protobuf { Form::Protobuf } else { Form::Json })
    }

    /// Requests the first page of a list of their versions.
    pub(super) fn version_pages(&self) -> Pages {
        self.begin(Form::Versions)
    }

    fn begin(&self, form: Form) -> Pages {
        let mut pages = Pages {
            collection: self.clone(),
            form,
            request: JoinSet::new(),
        };
        pages.send(None);
        pages
    }

    /// Requests a page of a list. No version is named, so that it is as current as the server's storage.
    async fn page(&self, token: Option<String>, form: Form) -> Result<Bytes, Error> {
        let (accept, limit) = match form {
            Form::Json => (self.only_metadata.then_some(METADATA_LIST), PAGE),
            Form::Protobuf => (Some(protobuf::ACCEPT), PAGE),
            Form::Versions => (Some(versions::ACCEPT), VERSIONS_PAGE),
        };
        let params = ListParams {
            continue_token: token,
            limit: Some(limit),
            ..self.selectors.clone()
        };
        let page = async {
            let request = self.request(&params, accept)?;
            let answer = self.send(request, "a list").await?;
            Ok(answer.into_body().collect().await?.to_bytes())
        };
        timeout(DEADLINE, page)
            .await
            .unwrap_or_else(|_| Err(no_answer("a list")))
    }

    /// Returns a request. `accept` is the form of the answer; by default whole objects.
    fn request(&self, params: &ListParams, accept: Option<&'static str>) -> Result<HttpRequest<Body>, Error> {
        let request = Request::new(self.url.as_str()).list(params);
        let mut request = request.map_err(|error| Error::of(&error))?.map(Body::from);
        if let Some(accept) = accept {
            let accept = HeaderValue::from_static(accept);
            request.headers_mut().insert(header::ACCEPT, accept);
        }
        Ok(request)
    }

    async fn send(&self, request: HttpRequest<Body>, what: &str) -> Result<Response<Body>, Error> {
        let answer = timeout(DEADLINE, self.client.send(request)).await;
        let answer = answer.map_err(|_| no_answer(what))??;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let text = timeout(DEADLINE, Limited::new(body, MAX_ERROR).collect()).await;
        let text = text
            .ok()
            .and_then(Result::ok)
            .map(Collected::to_bytes)
            .unwrap_or_default();
        Err(status(&text, head.status).into())
    }
}

impl Pages {
    /// Waits for the page that was requested.
    pub(super) async fn next(&mut self) -> Result<Bytes, Error> {
        let page = self.request.join_next().await.and_then(Result::ok);
        page.unwrap_or_else(|| Err(Error::new("the request for a page has ended")))
    }

    /// Requests the page with this token. Returns whether there is one.
    pub(super) fn request(&mut self, token: Option<&str>) -> bool {
        if let Some(token) = token {
            self.send(Some(token.to_owned()));
        }
        token.is_some()
    }

    fn send(&mut self, token: Option<String>) {
        let (collection, form) = (self.collection.clone(), self.form);
        self.request.spawn(async move { collection.page(token, form).await });
    }
}

/// Returns the error after a deadline.
fn no_answer(request: &str) -> Error {
    Error::new(format!("no answer to {request} within {} s", DEADLINE.as_secs()))
}
