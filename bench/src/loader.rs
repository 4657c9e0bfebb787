//! Many requests at a time.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use serde::Deserialize;

use crate::contender::CONCURRENCY;
use crate::request::{Key, Sent};
use crate::seen::Metadata;

/// What was answered, and when.
#[derive(Debug)]
pub struct Answer {
    /// The app that was asked for.
    pub key: Key,
    /// The identity of the object that came back; empty where a deletion is answered otherwise.
    pub uid: String,
    /// When it came.
    pub at: Instant,
}

/// An object or a Status, of which only the metadata are read.
#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Metadata,
}

/// Sends requests as fast as [`CONCURRENCY`] of them at a time can be, and returns the answers.
///
/// # Errors
/// When one is refused.
pub async fn load(client: &Client, requests: Vec<(Key, Sent)>) -> Result<Vec<Answer>> {
    let sent = requests.into_iter().map(|(key, request)| send(client, key, request));
    stream::iter(sent).buffer_unordered(CONCURRENCY).try_collect().await
}

/// Sends one request.
///
/// # Errors
/// When it is refused.
pub async fn send(client: &Client, key: Key, request: Sent) -> Result<Answer> {
    let what = format!("{} {}", request.method(), request.uri());
    let answer: Identified = client
        .request(request)
        .await
        .with_context(|| format!("failed to {what} ({})", key.name))?;
    Ok(Answer {
        key,
        uid: answer.metadata.uid,
        at: Instant::now(),
    })
}

/// Returns when the last answer came; now if there is none.
#[must_use]
pub fn last(answers: &[Answer]) -> Instant {
    answers
        .iter()
        .map(|answer| answer.at)
        .max()
        .unwrap_or_else(Instant::now)
}
