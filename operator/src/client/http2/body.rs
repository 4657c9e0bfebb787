//! The body of a response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::RecvStream;
use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::pool::Slot;

/// The body of a response. Its stream is reset if it is dropped before its end.
pub struct ResponseBody {
    stream: RecvStream,
    /// The longest time without data.
    limit: Duration,
    silence: Pin<Box<Sleep>>,
    /// Data were requested and have not arrived yet.
    is_waiting: bool,
    /// The reservation of the stream, until it ends.
    slot: Option<Slot>,
}

impl ResponseBody {
    pub(super) fn new(stream: RecvStream, slot: Slot, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            silence: Box::pin(sleep(limit)),
            is_waiting: false,
            slot: Some(slot),
        }
    }

    fn end(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.end();
        }
    }

    /// Ends with an error if there were no data for the limit.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_waiting {
            self.is_waiting = true;
            self.silence.as_mut().reset(Instant::now() + self.limit);
        }
        ready!(self.silence.as_mut().poll(cx));
        let why = format!("no data within {:.0?}", self.limit);
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Poll::Ready(data) = self.stream.poll_data(cx) else {
            return self.poll_silence(cx).map(|error| Some(Err(error)));
        };
        self.is_waiting = false;
        let released = data.map(|data| {
            let data = data?;
            self.stream.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        });
        if !matches!(released, Some(Ok(_))) {
            self.end();
        }
        Poll::Ready(released.map(|data| data.map_err(broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // The last data may have been read, and not that nothing follows.
        if self.stream.is_end_stream() {
            self.end();
        }
    }
}

/// Returns the error of a body. A connection that has ended is the end of what is received, as with HTTP/1.1: a watch continues
/// then on another one, without an error.
fn broken(error: h2::Error) -> io::Error {
    match error.get_io().map(io::Error::kind) {
        Some(io::ErrorKind::BrokenPipe) => io::Error::new(io::ErrorKind::UnexpectedEof, error),
        Some(kind) => io::Error::new(kind, error),
        None => io::Error::other(error),
    }
}
