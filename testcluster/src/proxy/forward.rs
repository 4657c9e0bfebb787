//! Carries one request through: decides by the rules, forwards, answers.

use std::io;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};

use super::RuleId;
use super::events::filter;
use super::request::{Request, Verb};
use super::rule::{Action, Answer, Edit};
use super::script::Script;
use super::server::Connection;

/// Why a connection is closed without an answer.
pub(super) type Problem = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, Problem>;

/// Carries `request` through. An error closes the client's connection, as one to a server that
/// is gone would be.
pub(super) async fn forward(
    mut request: http::Request<Incoming>,
    connection: Arc<Connection>,
    script: Arc<Script>,
) -> Result<Response<Body>, Problem> {
    let read = Request::read(request.method(), request.uri());
    let (place, decided) = script.decide(&read);
    // What is to be edited must be readable.
    request.headers_mut().remove(ACCEPT_ENCODING);

    let send = async || {
        let response = connection.send(request).await?;
        script.answered(place, Some(response.status().as_u16()), None);
        Ok::<_, Problem>(response)
    };
    let pass = |response, cut_after| pass(response, &read, cut_after, &script);
    let response = match decided {
        None | Some((_, Action::FreezeWatches | Action::HideEvents(_))) => pass(send().await?, None),
        Some((_, Action::CutAfterEvents(events))) => pass(send().await?, Some(events)),
        Some((_, Action::Delay(delay))) => {
            tokio::time::sleep(delay).await;
            pass(send().await?, None)
        }
        Some((_, Action::Edit(edits))) => edit(send().await?, &edits).await?,
        Some((_, Action::Answer(answer))) => write(&answer)?,
        Some((_, Action::ForwardThenAnswer(answer))) => {
            send().await?.into_body().collect().await?;
            write(&answer)?
        }
        Some((_, Action::Disconnect)) => return Err(lie("disconnected")),
        Some((_, Action::ForwardThenDisconnect)) => {
            send().await?.into_body().collect().await?;
            return Err(lie("disconnected after it was done"));
        }
        Some((id, Action::Hang)) => {
            hang(&script, id).await;
            return Err(lie("hung until the rule was removed"));
        }
    };
    script.answered(place, None, Some(response.status().as_u16()));
    Ok(response)
}

/// Passes the API server's answer on; that of a watch is under the rules for as long as it lasts.
fn pass(
    response: Response<Incoming>,
    request: &Request,
    cut_after: Option<usize>,
    script: &Arc<Script>,
) -> Response<Body> {
    if request.verb == Verb::Watch && response.status().is_success() {
        let watch = script.open(request.clone());
        response.map(|body| filter(body, request.clone(), watch, cut_after, Arc::clone(script)))
    } else {
        response.map(|body| body.map_err(Problem::from).boxed_unsync())
    }
}

/// Returns the error that closes a connection; nobody sees it but a debugger.
pub(super) fn lie(what: &str) -> Problem {
    Problem::from(io::Error::other(what.to_owned()))
}

async fn hang(script: &Script, id: RuleId) {
    let mut rules = script.rules();
    while script.stands(id) && rules.changed().await.is_ok() {}
}

fn write(answer: &Answer) -> Result<Response<Body>, Problem> {
    let mut response = Response::new(full(answer.body.clone().into()));
    *response.status_mut() = StatusCode::from_u16(answer.status)?;
    for (name, value) in &answer.headers {
        response
            .headers_mut()
            .append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
    }
    Ok(response)
}

async fn edit(response: Response<Incoming>, edits: &[Edit]) -> Result<Response<Body>, Problem> {
    let (mut parts, body) = response.into_parts();
    let mut body = body.collect().await?.to_bytes();
    for edit in edits {
        body = match edit {
            Edit::Body(text) => text.clone().into(),
            Edit::Replace(pointer, value) => {
                let mut json: serde_json::Value = serde_json::from_slice(&body)?;
                if let Some(place) = json.pointer_mut(pointer) {
                    *place = value.clone();
                }
                json.to_string().into()
            }
            Edit::HideItem(name) => {
                let mut json: serde_json::Value = serde_json::from_slice(&body)?;
                if let Some(items) = json.pointer_mut("/items").and_then(serde_json::Value::as_array_mut) {
                    items.retain(|item| {
                        item.pointer("/metadata/name").and_then(serde_json::Value::as_str) != Some(name)
                    });
                }
                json.to_string().into()
            }
        };
    }
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, full(body)))
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
