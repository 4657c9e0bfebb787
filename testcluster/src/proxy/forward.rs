//! Carries one request through: decides by the rules, forwards, answers.

use std::io;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use serde_json::Value;

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
        Some((_, Action::Answer(answer))) => write(&answer),
        Some((_, Action::ForwardThenAnswer(answer))) => {
            send().await?.into_body().collect().await?;
            write(&answer)
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

/// Returns the answer of a rule that can't be followed: a test whose lie was not told must not pass.
fn wrong(problem: &str) -> Response<Body> {
    let message = format!("a rule of the lying proxy can't be followed: {problem}");
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

async fn edit(response: Response<Incoming>, edits: &[Edit]) -> Result<Response<Body>, Problem> {
    let (mut parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    parts.headers.remove(CONTENT_LENGTH);
    Ok(match edits.iter().try_fold(body, |body, edit| apply(&body, edit)) {
        Ok(body) => Response::from_parts(parts, full(body)),
        Err(problem) => wrong(&problem),
    })
}

/// Returns `body` with one edit made.
fn apply(body: &[u8], edit: &Edit) -> Result<Bytes, String> {
    let parse = || serde_json::from_slice::<Value>(body).map_err(|error| format!("the answer is no JSON: {error}"));
    match edit {
        Edit::Body(text) => Ok(text.clone().into()),
        Edit::Replace(pointer, value) => {
            let mut json = parse()?;
            let place = json
                .pointer_mut(pointer)
                .ok_or_else(|| format!("the answer has no {pointer}"))?;
            *place = value.clone();
            Ok(json.to_string().into())
        }
        Edit::HideItem(name) => {
            let mut json = parse()?;
            let items = json
                .get_mut("items")
                .and_then(Value::as_array_mut)
                .ok_or("the answer is no list")?;
            items.retain(|item| item.pointer("/metadata/name").and_then(Value::as_str) != Some(name));
            Ok(json.to_string().into())
        }
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
