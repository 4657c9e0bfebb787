//! Sends many requests at a time.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use serde::Deserialize;

use crate::contender::CONCURRENCY;
use crate::request::{Key, Sent};
use crate::seen::Metadata;

/// An answer, and its time.
#[derive(Debug)]
pub struct Answer {
    /// The app of the request.
    pub key: Key,
    /// The UID of the returned object; empty for a deletion that returns a Status.
    pub uid: String,
    /// When it was received.
    pub at: Instant,
}

/// An object or a Status, of which only the metadata is decoded.
#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Metadata,
}

/// Sends requests, [`CONCURRENCY`] of them at a time, and returns the answers.
///
/// # Errors
/// When one is rejected.
pub async fn load(client: &Client, requests: Vec<(Key, Sent)>) -> Result<Vec<Answer>> {
    let sent = requests.into_iter().map(|(key, request)| send(client, key, request));
    stream::iter(sent).buffer_unordered(CONCURRENCY).try_collect().await
}

/// Sends one request.
///
/// # Errors
/// When it is rejected.
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

/// Returns the time of the last answer; the current time if there is none.
#[must_use]
pub fn last(answers: &[Answer]) -> Instant {
    answers
        .iter()
        .map(|answer| answer.at)
        .max()
        .unwrap_or_else(Instant::now)
}
