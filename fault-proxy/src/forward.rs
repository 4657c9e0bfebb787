//! Processes one request: finds the rule, forwards, answers.

use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use tokio::sync::oneshot;

use crate::RuleId;
use crate::action::{Action, Answer, Edit, Point};
use crate::connection::Connection;
use crate::edit::apply;
use crate::encoding::Encoding;
use crate::error::{Body, BoxError, injected};
use crate::events::filter;
use crate::request::{Request, Verb};
use crate::script::{Decided, Script};
use crate::sqs;
use crate::stalled::stalled;

/// Processes a request of HTTP/1.1. An error closes the client's connection, like that to a server that has crashed.
pub(crate) async fn forward(
    request: http::Request<Incoming>,
    connection: Arc<Connection>,
    script: Arc<Script>,
) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let read = read(&parts, &body);
    let (place, decided) = script.decide(&read);
    let exchange = Exchange::new(parts, body, (place, read), connection, script);
    exchange.respond(decided).await
}

/// Parses a request.
pub(crate) fn read(parts: &Parts, body: &[u8]) -> Request {
    sqs::read(parts, body).unwrap_or_else(|| Request::read(&parts.method, &parts.uri, body))
}

/// A request, and the connection to the API server.
pub(crate) struct Exchange {
    request: http::Request<Full<Bytes>>,
    read: Request,
    place: usize,
    connection: Arc<Connection>,
    script: Arc<Script>,
}

impl Exchange {
    /// Returns the exchange of a request that is recorded at this index.
    pub(crate) fn new(
        mut parts: Parts,
        body: Bytes,
        (place, read): (usize, Request),
        connection: Arc<Connection>,
        script: Arc<Script>,
    ) -> Self {
        // Content that is edited must not be compressed.
        parts.headers.remove(ACCEPT_ENCODING);
        Self {
            request: http::Request::from_parts(parts, Full::new(body)),
            read,
            place,
            connection,
            script,
        }
    }

    /// Answers as decided. After an error there must be no answer.
    pub(crate) async fn respond(self, decided: Decided) -> Result<Response<Body>, BoxError> {
        let (place, script) = (self.place, Arc::clone(&self.script));
        let response = match decided {
            Decided::Pass => self.pass(None).await?,
            Decided::Act(id, action) => self.act(id, action).await?,
            Decided::Stopped => {
                script.until_going().await;
                return Err(injected("the client was stopped"));
            }
        };
        script.answered(place, None, Some(response.status().as_u16()));
        Ok(response)
    }

    async fn act(self, id: RuleId, action: Action) -> Result<Response<Body>, BoxError> {
        let script = Arc::clone(&self.script);
        match action {
            // Rules about events, which are applied to each event.
            Action::FreezeWatches | Action::FreezeOpenWatches | Action::HideEvents(_) | Action::Replay(_) => {
                self.pass(None).await
            }
            Action::CutAfterEvents(events) => self.pass(Some(events)).await,
            Action::Delay(delay) => {
                tokio::time::sleep(delay).await;
                self.pass(None).await
            }
            Action::Edit(edits) => edit(self.with_json().send().await?, &edits).await,
            Action::ServeList(nth) => Ok(match script.list(&self.read, nth) {
                Some(body) => Response::new(full(body)),
                None => wrong(&format!("there were fewer than {nth} of these lists")),
            }),
            Action::Lag(missing) => {
                let read = self.read.clone();
                let current = answer_of(self.send().await?).await?;
                Ok(write(&script.answer_before(&read, &current).unwrap_or(missing)))
            }
            Action::Answer(answer) => Ok(write(&answer)),
            Action::ForwardThenAnswer(answer) => {
                self.finish().await?;
                Ok(write(&answer))
            }
            Action::Disconnect => Err(injected("disconnected")),
            Action::ForwardThenDisconnect => {
                self.finish().await?;
                Err(injected("disconnected after it was done"))
            }
            Action::Reset => {
                self.connection.reset_when_closed()?;
                Err(injected("reset"))
            }
            Action::Truncate(bytes) => truncate(self.send().await?, bytes).await,
            Action::Hang => {
                script.until_removed(id).await;
                Err(injected("hung until the rule was removed"))
            }
            Action::ForwardThenHang => {
                self.finish().await?;
                script.until_removed(id).await;
                Err(injected("hung after it was done until the rule was removed"))
            }
            Action::StallAnswer => {
                let response = self.pass(None).await?;
                let until_removed = async move { script.until_removed(id).await };
                Ok(response.map(|body| stalled(body, until_removed)))
            }
            Action::GoAway(_) | Action::ResetStream(_) | Action::StallRequest => {
                Ok(wrong("it is about frames of HTTP/2"))
            }
            Action::Hold => self.hold(id).await,
            Action::Stop(point) => self.stop(id, point).await,
        }
    }

    /// Requests JSON, which can be edited, if the client also reads protobuf.
    fn with_json(mut self) -> Self {
        let accepted = self.request.headers().get(ACCEPT).and_then(|types| types.to_str().ok());
        if accepted.is_some_and(|types| types.ends_with(", application/json")) {
            let json = HeaderValue::from_static("application/json");
            self.request.headers_mut().insert(ACCEPT, json);
        }
        self
    }

    async fn send(self) -> Result<Response<Incoming>, BoxError> {
        let response = self.connection.send(self.request).await?;
        self.script.answered(self.place, Some(response.status().as_u16()), None);
        Ok(response)
    }

    /// Forwards the request, and drops the answer. A watch, which has no end, counts as done when it begins.
    async fn finish(self) -> Result<(), BoxError> {
        let is_endless = self.read.verb == Verb::Watch;
        let response = self.send().await?;
        if !is_endless {
            response.into_body().collect().await?;
        }
        Ok(())
    }

    /// Forwards the API server's answer; the events of a watch are subject to the rules.
    async fn pass(self, cut: Option<usize>) -> Result<Response<Body>, BoxError> {
        let (read, place, script) = (self.read.clone(), self.place, Arc::clone(&self.script));
        let response = self.send().await?;
        if read.is_of_queue_service() && read.verb == Verb::Get {
            let answer = answer_of(response).await?;
            let response = write(&answer);
            script.remember_answer(&read, answer);
            return Ok(response);
        }
        if !response.status().is_success() {
            return Ok(whole(response));
        }
        match read.verb {
            Verb::Watch => {
                let watch = script.open(read.clone());
                let content = response
                    .headers()
                    .get(CONTENT_TYPE)
                    .map_or(&[][..], HeaderValue::as_bytes);
                let encoding = if content.starts_with(b"application/vnd.kubernetes.protobuf") {
                    Encoding::Protobuf
                } else {
                    Encoding::Json
                };
                Ok(response.map(|body| filter(body, encoding, (place, read), watch, cut, script)))
            }
            Verb::List => {
                let (parts, body) = response.into_parts();
                let body = body.collect().await?.to_bytes();
                script.remember(&read, body.clone());
                Ok(Response::from_parts(parts, full(body)))
            }
            _ => Ok(whole(response)),
        }
    }

    /// Forwards the request when the rule is removed, even if its client has disconnected.
    async fn hold(self, id: RuleId) -> Result<Response<Body>, BoxError> {
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            self.script.until_removed(id).await;
            // The receiver does not exist if the client has disconnected.
            let _ = answer.send(self.pass(None).await);
        });
        answered.await?
    }

    async fn stop(self, id: RuleId, point: Point) -> Result<Response<Body>, BoxError> {
        let script = Arc::clone(&self.script);
        match point {
            Point::Sent => script.stop(id),
            Point::Done => {
                self.finish().await?;
                script.stop(id);
            }
            Point::Answered => {
                let (parts, body) = self.send().await?.into_parts();
                let body = body.collect().await?.to_bytes();
                script.stop(id);
                return Ok(Response::from_parts(parts, full(body)));
            }
        }
        script.until_removed(id).await;
        Err(injected("stopped"))
    }
}

fn whole(response: Response<Incoming>) -> Response<Body> {
    response.map(|body| body.map_err(BoxError::from).boxed_unsync())
}

/// Returns the answer for a rule that can't be applied: a test whose fault was not injected must not pass.
fn wrong(problem: &str) -> Response<Body> {
    let message = format!("a rule of the proxy can't be applied: {problem}");
    let mut response = Response::new(full(Answer::refusal(500, "InternalError", &message).body.into()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Reads an answer that has an end.
async fn answer_of(response: Response<Incoming>) -> Result<Answer, BoxError> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer::new(
        parts.status.as_u16(),
        String::from_utf8_lossy(&body).into_owned(),
    ))
}

fn write(answer: &Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let response = response.body(full(answer.body.clone().into()));
    response.unwrap_or_else(|error| wrong(&error.to_string()))
}

async fn edit(response: Response<Incoming>, edits: &[Edit]) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    parts.headers.remove(CONTENT_LENGTH);
    Ok(match edits.iter().try_fold(body, |body, edit| apply(&body, edit)) {
        Ok(body) => Response::from_parts(parts, full(body)),
        Err(problem) => wrong(&problem),
    })
}

/// Forwards the first `bytes` of the body, and then an error instead of its end.
async fn truncate(response: Response<Incoming>, bytes: usize) -> Result<Response<Body>, BoxError> {
    let (mut parts, mut body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let mut head = Vec::new();
    // No longer than needed: a watch has no end.
    while head.len() < bytes
        && let Some(frame) = body.frame().await
    {
        head.extend_from_slice(&frame?.into_data().unwrap_or_default());
    }
    head.truncate(bytes);
    let (mut sender, broken) = http_body_util::channel::Channel::new(1);
    tokio::spawn(async move {
        if sender.send_data(head.into()).await.is_ok() {
            // An error drops unwritten data, and the client must receive it.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            sender.abort(injected("truncated"));
        }
    });
    Ok(Response::from_parts(parts, broken.boxed_unsync()))
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
