//! Carries one request through: decides by the rules, forwards, answers.

use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use tokio::sync::oneshot;

use crate::RuleId;
use crate::action::{Action, Answer, Edit, Point};
use crate::connection::Connection;
use crate::edit::apply;
use crate::error::{Body, BoxError, injected};
use crate::events::filter;
use crate::request::{Request, Verb};
use crate::script::{Decided, Script};

/// Carries `request` through. An error closes the client's connection, as one to a server that
/// is gone would be.
pub(crate) async fn forward(
    request: http::Request<Incoming>,
    connection: Arc<Connection>,
    script: Arc<Script>,
) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let read = Request::read(&parts.method, &parts.uri, &body);
    let (place, decided) = script.decide(&read);
    // What is to be edited must be readable.
    parts.headers.remove(ACCEPT_ENCODING);
    let errand = Errand {
        request: http::Request::from_parts(parts, Full::new(body)),
        read,
        place,
        connection,
        script: Arc::clone(&script),
    };
    let response = match decided {
        Decided::Pass => errand.pass(None).await?,
        Decided::Act(id, action) => errand.act(id, action).await?,
        Decided::Stopped => {
            script.until_going().await;
            return Err(injected("the client was stopped"));
        }
    };
    script.answered(place, None, Some(response.status().as_u16()));
    Ok(response)
}

/// A request, and whom to carry it to.
struct Errand {
    request: http::Request<Full<Bytes>>,
    read: Request,
    place: usize,
    connection: Arc<Connection>,
    script: Arc<Script>,
}

impl Errand {
    async fn act(self, id: RuleId, action: Action) -> Result<Response<Body>, BoxError> {
        let script = Arc::clone(&self.script);
        match action {
            // Of events, which are decided about one by one.
            Action::FreezeWatches | Action::HideEvents(_) | Action::Replay(_) => self.pass(None).await,
            Action::CutAfterEvents(events) => self.pass(Some(events)).await,
            Action::Delay(delay) => {
                tokio::time::sleep(delay).await;
                self.pass(None).await
            }
            Action::Edit(edits) => edit(self.send().await?, &edits).await,
            Action::ServeList(nth) => Ok(match script.list(&self.read, nth) {
                Some(body) => write(&Answer::new(200, body)),
                None => wrong(&format!("there was no list number {nth} of these")),
            }),
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
            Action::Hold => self.hold(id).await,
            Action::Stop(point) => self.stop(id, point).await,
        }
    }

    async fn send(self) -> Result<Response<Incoming>, BoxError> {
        let response = self.connection.send(self.request).await?;
        self.script.answered(self.place, Some(response.status().as_u16()), None);
        Ok(response)
    }

    /// Has it done, and keeps the answer from everybody. A watch, which has no end, is done when it begins.
    async fn finish(self) -> Result<(), BoxError> {
        let is_endless = self.read.verb == Verb::Watch;
        let response = self.send().await?;
        if !is_endless {
            response.into_body().collect().await?;
        }
        Ok(())
    }

    /// Passes the API server's answer on; that of a watch is under the rules for as long as it lasts.
    async fn pass(self, cut_after: Option<usize>) -> Result<Response<Body>, BoxError> {
        let (read, place, script) = (self.read.clone(), self.place, Arc::clone(&self.script));
        let response = self.send().await?;
        if !response.status().is_success() {
            return Ok(whole(response));
        }
        match read.verb {
            Verb::Watch => {
                let watch = script.open(read.clone());
                Ok(response.map(|body| filter(body, (place, read), watch, cut_after, script)))
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

    /// Sends it when the rule is removed, whether anybody still waits for the answer or not.
    async fn hold(self, id: RuleId) -> Result<Response<Body>, BoxError> {
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            self.script.until_removed(id).await;
            // Nobody waits for it if the client is gone.
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

/// Returns the answer of a rule that can't be followed: a test whose lie was not told must not pass.
fn wrong(problem: &str) -> Response<Body> {
    let message = format!("a rule of the proxy can't be followed: {problem}");
    let mut response = Response::new(full(Answer::refusal(500, "InternalError", &message).body.into()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
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

/// Passes on the first `bytes` of the body, and then an error in the place of its end.
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
            // An error takes what is not yet written with it, and the client is to have that.
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
