//! The body of a watch, event by event: a line of JSON, or a message in protobuf after its length.

use std::sync::Arc;

use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::body::{Bytes, Incoming};
use tokio::sync::oneshot;

use crate::encoding::Encoding;
use crate::error::{Body, BoxError, injected};
use crate::request::Request;
use crate::script::{Script, Verdict, Watch};

/// Returns the events of `upstream` that the rules let through. `place` is the index of the request in the record. With `cut`, the watch
/// breaks after this many events.
pub(crate) fn filter(
    upstream: Incoming,
    encoding: Encoding,
    (place, request): (usize, Request),
    watch: Watch,
    cut: Option<usize>,
    script: Arc<Script>,
) -> Body {
    let (sender, body) = Channel::new(1);
    let (held, let_go) = oneshot::channel::<()>();
    let mut stream = Stream {
        encoding,
        place,
        number: watch.number,
        request,
        script,
        sender,
        cut,
        told: Vec::new(),
    };
    tokio::spawn(async move {
        let end = tokio::select! {
            end = stream.run(upstream) => end,
            () = watch.cut.notified() => End::Broken,
            // The client has disconnected, which would otherwise only be noticed at the next event.
            _ = let_go => End::Said,
        };
        if matches!(end, End::Broken) {
            // An error drops unwritten data, and the client must receive it.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            stream.sender.abort(injected("cut a watch"));
        }
    });
    body.map_frame(move |frame| {
        let _held_as_long_as_the_body = &held;
        frame
    })
    .boxed_unsync()
}

/// How a watch ends for its client.
enum End {
    /// As if the API server had ended it.
    Said,
    /// As if the connection had broken.
    Broken,
}

struct Stream {
    encoding: Encoding,
    place: usize,
    number: usize,
    request: Request,
    script: Arc<Script>,
    sender: Sender<Bytes, BoxError>,
    cut: Option<usize>,
    /// Events that may have to be sent again, without bookmarks.
    told: Vec<Bytes>,
}

impl Stream {
    async fn run(&mut self, mut upstream: Incoming) -> End {
        let mut pending = Vec::new();
        while !matches!(self.cut, Some(0)) {
            let Some(frame) = upstream.frame().await else {
                return End::Said;
            };
            let Ok(frame) = frame else { return End::Broken };
            pending.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = self.encoding.find(&pending) {
                let event: Vec<u8> = pending.drain(..end).collect();
                if let Some(end) = self.pass(event).await {
                    return end;
                }
            }
        }
        End::Broken
    }

    /// Passes or drops one event; returns how the watch ends, if it does.
    async fn pass(&mut self, event: Vec<u8>) -> Option<End> {
        let head = self.encoding.head(&event);
        // Subscribed before the rules are read, so that no change is missed in between.
        let mut rules = self.script.rules();
        let verdict = loop {
            match self.script.decide_event(&self.request, self.number, &head) {
                Verdict::Hide => return None,
                Verdict::Freeze => rules.changed().await.ok()?,
                verdict @ (Verdict::Pass | Verdict::Replay) => break verdict,
            }
        };
        let event = Bytes::from(event);
        if !matches!(&*head.kind, "" | "BOOKMARK") {
            self.told.push(event.clone());
            self.script.tells(self.place);
        }
        let again = if verdict == Verdict::Replay { &*self.told } else { &[] };
        for event in [&event].into_iter().chain(again) {
            if self.sender.send_data(event.clone()).await.is_err() {
                return Some(End::Said);
            }
        }
        let left = self.cut.as_mut()?;
        *left = left.saturating_sub(1);
        (*left == 0).then_some(End::Broken)
    }
}
