//! Records the changes that were sent, for the error of an interrupted command or a lost answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Uri};
use tower::{Layer, Service};

/// Counts the requests that change something. All copies share the counts.
#[derive(Clone, Debug, Default)]
pub struct Writes(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicUsize,
    open: AtomicUsize,
    is_unanswered: AtomicBool,
}

impl Writes {
    /// Whether any change was sent.
    pub fn any(&self) -> bool {
        self.0.sent.load(Ordering::SeqCst) > 0
    }

    /// Whether a change was sent and not answered yet.
    pub fn is_open(&self) -> bool {
        self.0.open.load(Ordering::SeqCst) > 0
    }

    /// Whether the last change got no answer, so that it may have been made. Reported once.
    pub fn take_unanswered(&self) -> bool {
        self.0.is_unanswered.swap(false, Ordering::SeqCst)
    }

    /// Notes that a request is sent, if it is a change.
    fn begin(&self, method: &Method, uri: &Uri) -> Option<Open> {
        is_change(method, uri).then(|| {
            self.0.sent.fetch_add(1, Ordering::SeqCst);
            self.0.open.fetch_add(1, Ordering::SeqCst);
            Open {
                writes: self.clone(),
                is_answered: false,
            }
        })
    }
}

/// Whether a request may change something: no dry run, and no question about rights.
fn is_change(method: &Method, uri: &Uri) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    let is_dry = uri.query().is_some_and(|query| query.contains("dryRun="));
    let is_review = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
    !reads && !is_dry && !is_review.iter().any(|group| uri.path().contains(group))
}

/// A change that is not answered yet.
struct Open {
    writes: Writes,
    is_answered: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let counts = &self.writes.0;
        counts.open.fetch_sub(1, Ordering::SeqCst);
        counts.is_unanswered.store(!self.is_answered, Ordering::SeqCst);
    }
}

/// Records the changes that a client sends.
#[derive(Clone, Debug)]
pub struct RecordWrites(pub Writes);

impl<S> Layer<S> for RecordWrites {
    type Service = Recorder<S>;

    fn layer(&self, inner: S) -> Recorder<S> {
        Recorder {
            inner,
            writes: self.0.clone(),
        }
    }
}

/// A client whose changes are recorded.
#[derive(Clone, Debug)]
pub struct Recorder<S> {
    inner: S,
    writes: Writes,
}

impl<S, B> Service<Request<B>> for Recorder<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut open = self.writes.begin(request.method(), request.uri());
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            if let Some(open) = &mut open {
                open.is_answered = answer.is_ok();
            }
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changing_requests_are_recorded() {
        let counts = |method: Method, uri: &str| is_change(&method, &uri.parse().unwrap());
        assert!(counts(
            Method::PATCH,
            "/apis/appdeploy.dev/v1alpha1/namespaces/a/appdeploys/b?fieldManager=x"
        ));
        assert!(counts(Method::DELETE, "/api/v1/namespaces/a"));
        assert!(!counts(Method::GET, "/api/v1/namespaces/a"));
        assert!(!counts(Method::POST, "/api/v1/namespaces?dryRun=All"));
        assert!(!counts(
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        ));
    }

    #[test]
    fn change_without_an_answer_is_reported_once() {
        let writes = Writes::default();
        let uri = Uri::from_static("/api/v1/namespaces");
        assert!(writes.begin(&Method::GET, &uri).is_none() && !writes.any());
        let open = writes.begin(&Method::POST, &uri);
        assert!(writes.any() && writes.is_open() && !writes.take_unanswered());
        drop(open);
        assert!(!writes.is_open() && writes.take_unanswered() && !writes.take_unanswered());
        if let Some(mut open) = writes.begin(&Method::POST, &uri) {
            open.is_answered = true;
        }
        assert!(!writes.take_unanswered());
    }
}
