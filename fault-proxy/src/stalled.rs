//! A body that begins later than its head.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Frame};

use crate::error::{Body, BoxError};

/// Returns `body` after `begin`.
pub(crate) fn stalled(body: Body, begin: impl Future<Output = ()> + Send + 'static) -> Body {
    let begin = Some(Box::pin(begin) as Pin<Box<_>>);
    Stalled { begin, body }.boxed_unsync()
}

struct Stalled {
    begin: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    body: Body,
}

impl hyper::body::Body for Stalled {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(begin) = &mut self.begin {
            ready!(begin.as_mut().poll(cx));
            self.begin = None;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}
