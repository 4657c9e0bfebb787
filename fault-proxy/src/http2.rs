//! Serves a connection of HTTP/2, each request on a stream of its own.

mod frame;
mod relay;
mod stream;

use std::sync::Arc;

use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Request, Response, Uri, Version};
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::error::{Body, BoxError};
use crate::forward::{Exchange, read};
use crate::request::Transport;
use crate::script::{Decided, Script};

use frame::{Effect, Frame};
use relay::relay;
use stream::{RequestBody, answer};

/// Concurrent streams, as API servers allow by default.
const STREAMS: u32 = 100;
/// What h2 may receive before it is read, which is more than any request has. Clients get their windows from [`RequestBody`].
const WINDOW: u32 = 1 << 24;
/// The bytes between h2 and the client.
const BUFFER: usize = 1 << 16;

/// A request that has arrived on a stream.
type Arrival = (Request<RecvStream>, SendResponse<Bytes>);

/// Serves a connection until a side closes it.
pub(crate) async fn serve<S>(client: S, connection: &Arc<Connection>, script: &Arc<Script>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (server, inner) = duplex(BUFFER);
    let (frames, sent) = unbounded_channel();
    let requests = Requests {
        connection: Arc::clone(connection),
        script: Arc::clone(script),
        frames: frames.clone(),
        running: JoinSet::new(),
    };
    let (arrived, arrivals) = unbounded_channel();
    tokio::select! {
        biased;
        () = connection.until_reset() => {}
        _ = relay(client, inner, frames, sent) => {}
        _ = accept(server, &arrived) => {}
        () = requests.serve(arrivals) => {}
    }
}

/// Accepts requests until the connection ends.
async fn accept(server: DuplexStream, arrived: &UnboundedSender<Arrival>) -> Result<(), h2::Error> {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let mut requests = builder.handshake(server).await?;
    while let Some(arrival) = requests.accept().await {
        // The receiver lives as long as this.
        let _ = arrived.send(arrival?);
    }
    Ok(())
}

/// The requests of a connection.
struct Requests {
    connection: Arc<Connection>,
    script: Arc<Script>,
    frames: UnboundedSender<Frame>,
    /// Canceled with the connection.
    running: JoinSet<()>,
}

impl Requests {
    /// Decides about requests in the order of their streams, and answers them at the same time. After GOAWAY, none is processed
    /// that it excludes: a client sends these again.
    async fn serve(mut self, mut arrivals: UnboundedReceiver<Arrival>) {
        let mut last = u32::MAX;
        while let Some((request, respond)) = arrivals.recv().await {
            while self.running.try_join_next().is_some() {}
            if respond.stream_id().as_u32() <= last {
                // If it fails, the client has canceled the request.
                last = self.begin(request, respond).await.unwrap_or(u32::MAX);
            }
        }
        std::future::pending::<()>().await;
    }

    /// Begins to process a request, and returns the last stream that is processed.
    async fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Result<u32, BoxError> {
        let stream = respond.stream_id().as_u32();
        let (parts, body) = request.into_parts();
        let parts = for_http1(parts)?;
        let mut body = RequestBody::new(body, length(&parts), self.frames.clone());
        let text = if self.script.may_stall_requests() {
            body.receive_all_but_the_end().await?
        } else {
            body.receive_all().await?
        };
        let mut read = read(&parts, &text);
        read.transport = if body.is_complete() {
            Transport::Http2
        } else {
            Transport::Http2WithoutEnd
        };
        let (place, decided) = self.script.decide(&read);
        let pending = Pending {
            parts,
            body,
            read,
            place,
            connection: Arc::clone(&self.connection),
            script: Arc::clone(&self.script),
        };
        let mut last = u32::MAX;
        match Effect::of(&decided, stream) {
            Effect::None => self.answer(respond, pending.process(decided)),
            Effect::Stall(id) => {
                let script = Arc::clone(&self.script);
                self.answer(respond, async move {
                    script.until_removed(id).await;
                    pending.process(Decided::Pass).await
                });
            }
            Effect::Reset(reason) => {
                let mut respond = respond;
                respond.send_reset(reason);
            }
            Effect::ShutDown(of) => {
                last = of;
                // The connection has ended if it is not received.
                let _ = self.frames.send(Frame::goaway(last));
                if stream <= last {
                    self.answer(respond, pending.process(Decided::Pass));
                }
            }
        }
        Ok(last)
    }

    fn answer(
        &mut self,
        respond: SendResponse<Bytes>,
        response: impl Future<Output = Result<Response<Body>, BoxError>> + Send + 'static,
    ) {
        let connection = Arc::clone(&self.connection);
        self.running
            .spawn(async move { answer(respond, &connection, response).await });
    }
}

/// A request about which is decided, perhaps before its end.
struct Pending {
    parts: Parts,
    body: RequestBody,
    read: crate::request::Request,
    place: usize,
    connection: Arc<Connection>,
    script: Arc<Script>,
}

impl Pending {
    async fn process(mut self, decided: Decided) -> Result<Response<Body>, BoxError> {
        let body = self.body.receive_all().await?;
        let of = (self.place, self.read);
        let exchange = Exchange::new(self.parts, body, of, self.connection, self.script);
        exchange.respond(decided).await
    }
}

/// Returns the head of a request as it is sent to the API server, with HTTP/1.1.
fn for_http1(mut parts: Parts) -> Result<Parts, http::Error> {
    if let Some(authority) = parts.uri.authority() {
        let host = HeaderValue::try_from(authority.as_str())?;
        parts.headers.insert(HOST, host);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse::<Uri>()?;
    parts.version = Version::HTTP_11;
    Ok(parts)
}

/// Returns the length of the body, if the client states it.
fn length(parts: &Parts) -> Option<u32> {
    let length = parts.headers.get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
