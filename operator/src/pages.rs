//! Bounds the pages of lists by bytes. A page is requested by a number of objects, and hundreds of objects of a MiB would
//! exhaust the operator's memory.
//!
//! The body of a page is read up to a limit. If it is larger, it is dropped and the same page is requested again with fewer
//! objects. Pages that are much smaller than the limit let the number grow again, up to what was asked for. Ordinary lists
//! are not affected and cost no further request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as HttpBody, Bytes};
use kube::client::Body;
use tower::{BoxError, Layer, Service};
use tracing::debug;

/// The most bytes of a page with more than one object. A hundred Deployments that are rolled out have about half of it as JSON.
pub const MAX_PAGE: usize = 2 << 20;

/// Objects per page that are worth a request, by path and selector of the list.
type Sizes = Arc<Mutex<HashMap<String, u32>>>;

/// The body of an answer.
type PageBody = UnsyncBoxBody<Bytes, BoxError>;

/// Adds the bound to a client.
#[derive(Clone, Debug, Default)]
pub struct PageLimit {
    sizes: Sizes,
}

/// A client with the bound.
#[derive(Clone, Debug)]
pub struct Pages<S> {
    inner: S,
    sizes: Sizes,
}

impl<S> Layer<S> for PageLimit {
    type Service = Pages<S>;

    fn layer(&self, inner: S) -> Pages<S> {
        Pages {
            inner,
            sizes: self.sizes.clone(),
        }
    }
}

impl<S, B> Service<Request<Body>> for Pages<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<PageBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<PageBody>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The clone may not be ready; the one that is ready is used.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let Some(list) = List::of(&request) else {
            let response = inner.call(request);
            return Box::pin(async move {
                let (head, body) = response.await?.into_parts();
                Ok(Response::from_parts(head, body.map_err(Into::into).boxed_unsync()))
            });
        };
        let sizes = self.sizes.clone();
        Box::pin(async move {
            let (head, _) = request.into_parts();
            loop {
                let size = known(&sizes, &list);
                let mut again = Request::new(Body::empty());
                *again.method_mut() = head.method.clone();
                *again.uri_mut() = list.with(size)?;
                *again.headers_mut() = head.headers.clone();
                *again.extensions_mut() = head.extensions.clone();
                std::future::poll_fn(|cx| inner.poll_ready(cx)).await?;
                let (head, body) = inner.call(again).await?.into_parts();
                let most = if size > 1 { MAX_PAGE } else { usize::MAX };
                if let Some(bytes) = collect(body, most).await? {
                    if bytes.len() < MAX_PAGE / 4 {
                        learn(&sizes, &list, size.saturating_mul(2));
                    }
                    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
                    return Ok(Response::from_parts(head, body));
                }
                debug!(
                    list = list.key,
                    objects = size,
                    "a page is too large; requesting fewer objects"
                );
                learn(&sizes, &list, size / 4);
            }
        })
    }
}

/// A request for a page.
struct List {
    /// The path and the selectors.
    key: String,
    /// The number of objects that the caller asked for.
    limit: u32,
    uri: Uri,
}

impl List {
    fn of(request: &Request<Body>) -> Option<Self> {
        let uri = request.uri();
        let parameters = || uri.query().unwrap_or_default().split('&');
        if request.method() != Method::GET || parameters().any(|parameter| parameter.starts_with("watch=")) {
            return None;
        }
        let limit = parameters().find_map(|parameter| parameter.strip_prefix("limit=")?.parse().ok())?;
        let selectors: Vec<&str> = parameters()
            .filter(|parameter| parameter.contains("Selector="))
            .collect();
        Some(Self {
            key: format!("{}?{}", uri.path(), selectors.join("&")),
            limit,
            uri: uri.clone(),
        })
    }

    /// Returns the request's address with another number of objects.
    fn with(&self, size: u32) -> Result<Uri, BoxError> {
        if size == self.limit {
            return Ok(self.uri.clone());
        }
        let query: Vec<String> = self
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .map(|parameter| {
                if parameter.starts_with("limit=") {
                    format!("limit={size}")
                } else {
                    parameter.to_owned()
                }
            })
            .collect();
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(format!("{}?{}", self.uri.path(), query.join("&")).parse()?);
        Ok(Uri::from_parts(parts)?)
    }
}

fn known(sizes: &Sizes, list: &List) -> u32 {
    let sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
    sizes.get(&list.key).map_or(list.limit, |size| (*size).min(list.limit))
}

/// Only lists whose size is not the one that was asked for are remembered.
fn learn(sizes: &Sizes, list: &List, size: u32) {
    let mut sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
    if size >= list.limit {
        sizes.remove(&list.key);
    } else {
        sizes.insert(list.key.clone(), size.max(1));
    }
}

/// Reads a body; `None` if it has more than `most` bytes.
async fn collect<B>(body: B, most: usize) -> Result<Option<Bytes>, BoxError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Into::into)?.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > most {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves objects of these sizes, and returns the pages that were requested.
    async fn listed(objects: &'static [usize], limit: u32) -> (Vec<u32>, usize, usize) {
        let requested = Arc::new(Mutex::new(Vec::new()));
        let log = requested.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let log = log.clone();
            async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let number = |name: &str| -> usize {
                    let mut parameters = query.split('&');
                    parameters.find_map(|p| p.strip_prefix(name)?.parse().ok()).unwrap_or(0)
                };
                let (from, count) = (number("continue="), number("limit="));
                log.lock().unwrap().push(u32::try_from(count).unwrap());
                let to = (from + count).min(objects.len());
                let mut body = format!("{to:10}").into_bytes();
                body.resize(10 + objects[from..to].iter().sum::<usize>(), b'x');
                Ok::<_, BoxError>(Response::new(Body::from(body)))
            }
        });
        let mut client = PageLimit::default().layer(server);
        let (mut next, mut largest) = (0, 0);
        while next < objects.len() {
            let uri = format!("/apis/appdeploy.dev/v1alpha1/appdeploys?&limit={limit}&continue={next}");
            let response = client
                .call(Request::get(uri).body(Body::empty()).unwrap())
                .await
                .unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            largest = largest.max(body.len());
            next = std::str::from_utf8(&body[..10]).unwrap().trim().parse().unwrap();
        }
        let requested = requested.lock().unwrap().clone();
        (requested, next, largest)
    }

    #[tokio::test]
    async fn ordinary_lists_are_requested_as_they_are() {
        let (requested, all, _) = listed(&[4000; 250], 100).await;
        assert_eq!((requested, all), (vec![100, 100, 100], 250));
    }

    #[tokio::test]
    async fn large_page_is_requested_again_with_fewer_objects() {
        const MIB: usize = 1 << 20;
        let (requested, all, largest) = listed(&[MIB; 20], 100).await;
        assert_eq!(all, 20);
        assert!(largest <= MAX_PAGE, "{largest}");
        assert_eq!(requested[..4], [100, 25, 6, 1]);
        // One that is larger than a page is still listed.
        let (_, all, largest) = listed(&[100, 3 * MIB, 100], 100).await;
        assert_eq!((all, largest), (3, 3 * MIB + 10));
    }

    #[tokio::test]
    async fn pages_grow_again_after_large_objects() {
        static OBJECTS: [usize; 400] = {
            let mut sizes = [1000; 400];
            sizes[0] = 3 << 20;
            sizes
        };
        let (requested, all, _) = listed(&OBJECTS, 100).await;
        assert_eq!(all, 400);
        assert!(requested.len() < 15 && requested.contains(&100), "{requested:?}");
    }
}
