//! One stream: the body of its request, and its answer.

use std::future::poll_fn;

use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{Response, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes};
use tokio::sync::mpsc::UnboundedSender;

use super::frame::Frame;
use crate::connection::Connection;
use crate::error::{Body, BoxError};

/// The headers of HTTP/1.1 about the connection to the API server.
const OF_CONNECTION: [HeaderName; 4] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The window for a body whose length is not known.
const UNKNOWN: u32 = 1 << 24;

/// The body of a request. A client may send as much as it gets a window for.
pub(super) struct RequestBody {
    stream: RecvStream,
    /// What the client states, if it does.
    length: Option<u32>,
    frames: UnboundedSender<Frame>,
    /// The size of the window that the client got.
    allowed: u32,
    received: Vec<u8>,
}

impl RequestBody {
    pub(super) fn new(stream: RecvStream, length: Option<u32>, frames: UnboundedSender<Frame>) -> Self {
        Self {
            stream,
            length,
            frames,
            allowed: 0,
            received: Vec::new(),
        }
    }

    /// Returns whether the client has sent all of it.
    pub(super) fn is_complete(&self) -> bool {
        self.stream.is_end_stream()
    }

    /// Receives all except for the last byte, and returns it with an end as all objects have.
    pub(super) async fn receive_all_but_the_end(&mut self) -> Result<Bytes, h2::Error> {
        let Some(end) = self
            .length
            .and_then(|length| length.checked_sub(1))
            .filter(|end| *end > 0)
        else {
            return self.receive_all().await;
        };
        self.allow(end);
        self.receive(end as usize).await?;
        let mut text = self.received.clone();
        if !self.is_complete() {
            text.truncate(end as usize);
            text.push(b'}');
        }
        Ok(text.into())
    }

    /// Receives it.
    pub(super) async fn receive_all(&mut self) -> Result<Bytes, h2::Error> {
        self.allow(self.length.unwrap_or(UNKNOWN));
        self.receive(usize::MAX).await?;
        Ok(self.received.clone().into())
    }

    /// Allows the client to send this many bytes in all.
    fn allow(&mut self, bytes: u32) {
        let more = bytes.saturating_sub(self.allowed);
        if more > 0 && !self.is_complete() {
            let window = Frame::window_update(self.stream.stream_id().as_u32(), more);
            // The connection has ended if it is not received.
            let _ = self.frames.send(window);
            self.allowed = bytes;
        }
    }

    /// Receives until this many bytes have arrived, or all.
    async fn receive(&mut self, length: usize) -> Result<(), h2::Error> {
        while self.received.len() < length
            && let Some(data) = poll_fn(|cx| self.stream.poll_data(cx)).await
        {
            let data = data?;
            self.stream.flow_control().release_capacity(data.len())?;
            self.received.extend_from_slice(&data);
        }
        Ok(())
    }
}

/// Sends an answer, unless the client resets the stream before.
pub(super) async fn answer(
    mut respond: SendResponse<Bytes>,
    connection: &Connection,
    response: impl Future<Output = Result<Response<Body>, BoxError>>,
) {
    let response = tokio::select! {
        response = response => response,
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    let Ok(response) = response else {
        if connection.is_reset() {
            // It ends with the connection.
            std::future::pending::<()>().await;
        }
        return respond.send_reset(Reason::INTERNAL_ERROR);
    };
    let (mut parts, body) = response.into_parts();
    parts.version = Version::HTTP_2;
    for name in OF_CONNECTION {
        parts.headers.remove(name);
    }
    let head = Response::from_parts(parts, ());
    if let Ok(stream) = respond.send_response(head, body.is_end_stream())
        && !body.is_end_stream()
    {
        send(stream, body).await;
    }
}

/// Sends a body, as far as the client reads it.
async fn send(mut stream: SendStream<Bytes>, mut body: Body) {
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
        };
        match frame {
            None => return drop(stream.send_data(Bytes::new(), true)),
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                if send_data(&mut stream, data).await.is_err() {
                    return;
                }
            }
            Some(Err(_)) => {
                // A reset drops unwritten data, and the client must receive them.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                return stream.send_reset(Reason::INTERNAL_ERROR);
            }
        }
    }
}

/// Sends data when the client has a window for them.
async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(capacity) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return Err(Reason::STREAM_CLOSED.into());
        };
        let length = capacity?.min(data.len());
        stream.send_data(data.split_to(length), false)?;
    }
    Ok(())
}
