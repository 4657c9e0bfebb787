//! The floor: the writes of an operator without an operator, so that only the API server takes time.
//!
//! Each app gets its children and its status as soon as its creation is answered, in the order and at the concurrency of
//! the operator, and over the connection of HTTP/2 that the operator uses. Nothing is watched, read or compared.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use tokio::sync::mpsc;

use crate::contender::CONCURRENCY;
use crate::loader::{Answer, send};
use crate::request::{Key, Sent, writes};

/// Creates apps as `people`, and their children as `operator`. Returns the answers to the creation of apps.
///
/// # Errors
/// When a request is rejected.
pub async fn run(people: &Client, operator: &Client, apps: Vec<(Key, Sent)>) -> Result<Vec<Answer>> {
    let (created, to_write) = mpsc::unbounded_channel::<(Key, String)>();
    let create = async move {
        let sent = apps.into_iter().map(|(key, request)| {
            let created = created.clone();
            async move {
                let answer = send(people, key, request).await?;
                // The receiver exists until all senders are dropped.
                let _ = created.send((answer.key.clone(), answer.uid.clone()));
                Ok::<_, anyhow::Error>(answer)
            }
        });
        stream::iter(sent).buffer_unordered(CONCURRENCY).try_collect().await
    };
    let write = stream::unfold(to_write, async |mut to_write| Some((to_write.recv().await?, to_write)))
        .map(Ok)
        .try_for_each_concurrent(CONCURRENCY, |(key, uid)| async move {
            for write in writes(&key, &uid)? {
                send(operator, key.clone(), write).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    let (answers, ()) = futures::try_join!(create, write)?;
    Ok(answers)
}
