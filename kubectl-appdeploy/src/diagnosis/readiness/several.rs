//! Waits for several objects with one list and one watch.

use std::collections::BTreeSet;

use futures::{FutureExt as _, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use serde_json::Value;

use super::{Readiness, deleted, of, stalled, timed_out, warn};
use crate::cluster::connection::Cluster;
use crate::cluster::known::ObjectCache;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::watch::{Change, Changes, Connection, Watched, follow_all, follow_one};
use crate::error::{Error, Result};
use crate::resource::custom_resource::CustomResource;
use crate::terminal::ui::Ui;

/// One that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    name: String,
    /// Its identity: another of its name is not meant.
    uid: Option<String>,
}

impl Target {
    /// Returns the target that an object is.
    pub fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        Self {
            name: text("name").unwrap_or_default(),
            uid: text("uid"),
        }
    }
}

/// What has been seen so far.
struct Progress<'a> {
    all: Vec<One<'a>>,
}

struct One<'a> {
    target: &'a Target,
    last: Option<CustomResource>,
    outcome: Option<Result<()>>,
}

/// Waits until all objects are ready, and prints the progress of each. Returns those that did not become ready, in their order. An
/// object that will not become ready, or whose watch fails, does not end the wait for others.
pub async fn all(
    cluster: &Cluster,
    targets: &[Target],
    selector: Option<&str>,
    deadline: Deadline,
    ui: &mut Ui,
) -> Vec<Error> {
    let targets = distinct(targets);
    let mut seen = Progress::new(&targets);
    let mut news = Watched::new(news(cluster, &targets, selector), Connection::after_a_change());
    if !seen.is_done() {
        let waited = wait::until(&mut news, deadline, ui, async |changed, ui| {
            for (name, object) in changed {
                match seen.take(cluster, &name, object.as_ref()) {
                    Some(Message::Busy(text)) => ui.progress(&text),
                    Some(Message::Ready(text)) => ui.eprintln(&text),
                    None => {}
                }
            }
            Ok(seen.is_done().then_some(()))
        });
        if let Err(error) = waited.await {
            ui.clear_progress();
            return seen.interrupted(error);
        }
    }
    ui.clear_progress();
    let ready = seen.all.iter().filter(|one| matches!(one.outcome, Some(Ok(()))));
    for one in ready.filter_map(|one| one.last.as_ref()) {
        warn(cluster, one, ui).boxed_local().await;
    }
    seen.conclude(cluster, deadline).await
}

/// Returns each target once, in their order.
fn distinct(targets: &[Target]) -> Vec<Target> {
    let mut names = BTreeSet::new();
    let new = targets.iter().filter(|target| names.insert(&target.name));
    new.cloned().collect()
}

/// Changes: a name, and the object unless it was deleted.
type Updates = Vec<(String, Option<DynamicObject>)>;

fn news(cluster: &Cluster, targets: &[Target], selector: Option<&str>) -> Changes<Updates> {
    let api = cluster.objects(Some(&cluster.namespace));
    if let [one] = targets {
        // The least right that suffices, and the least traffic.
        let name = one.name.clone();
        let changes = follow_one(cluster, api, &one.name);
        return changes
            .map(move |next| next.map(|change| change.map(|object| vec![(name.clone(), object)])))
            .boxed();
    }
    let config = watcher::Config {
        label_selector: selector.map(str::to_owned),
        ..watcher::Config::default()
    };
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let mut known = ObjectCache::default();
    let mut listed = false;
    follow_all(cluster, api, config)
        .map(move |next| {
            let event = match next? {
                Change::Begin(event) | Change::New(event) => event,
                Change::Lost(error) => return Ok(Change::Lost(error)),
            };
            let changed = known.take(event);
            let changed = changed
                .into_iter()
                .map(|(object, gone)| (object.name_any(), (!gone).then_some(object)));
            let mut news: Updates = changed.collect();
            if known.is_complete() && !listed {
                listed = true;
                // An object that was deleted before the list is in no event.
                let gone = names
                    .iter()
                    .filter(|name| !news.iter().any(|(known, _)| known == *name));
                let gone: Updates = gone.map(|name| (name.clone(), None)).collect();
                news.extend(gone);
            }
            Ok(Change::New(news))
        })
        .boxed()
}

enum Message {
    Busy(String),
    Ready(String),
}

/// Returns the message for an object that is ready: with the number of its pods, or the URL of a queue.
fn ready_text(one: &CustomResource) -> String {
    let title = one.summary().title();
    match one {
        CustomResource::Workload(workload) => format!("{title} is ready ({})", workload.ready()),
        CustomResource::Queue(_) => match one.address() {
            Some(url) => format!("{title} is ready: {url}"),
            None => format!("{title} is ready"),
        },
    }
}

impl<'a> Progress<'a> {
    fn new(targets: &'a [Target]) -> Self {
        Self {
            all: targets
                .iter()
                .map(|target| One {
                    target,
                    last: None,
                    outcome: None,
                })
                .collect(),
        }
    }

    fn is_done(&self) -> bool {
        self.all.iter().all(|one| one.outcome.is_some())
    }

    /// Records the state of an object, and returns the message to print.
    fn take(&mut self, cluster: &Cluster, name: &str, object: Option<&DynamicObject>) -> Option<Message> {
        let count = self.all.len();
        let done = self.all.iter().filter(|one| one.outcome.is_some()).count();
        let One { target, last, outcome } = self.all.iter_mut().find(|one| one.target.name == name)?;
        if outcome.is_some() {
            return None;
        }
        let Some(object) = object.filter(|object| target.uid.is_none() || object.metadata.uid == target.uid) else {
            *outcome = Some(Err(deleted(cluster, name)));
            return None;
        };
        let one = CustomResource::read(cluster.kind_info(), object);
        let said = match of(one.summary()) {
            Readiness::Ready => {
                *outcome = Some(Ok(()));
                Some(Message::Ready(ready_text(&one)))
            }
            Readiness::Stalled => {
                *outcome = Some(Err(stalled(one.summary(), cluster.flag())));
                None
            }
            Readiness::Waiting(busy) if count == 1 => Some(Message::Busy(format!("{name}: {busy}"))),
            Readiness::Waiting(busy) => Some(Message::Busy(format!("{done} of {count} done, {name}: {busy}"))),
        };
        *last = Some(one);
        said
    }

    /// Returns the results when no more events will come.
    fn interrupted(self, error: Error) -> Vec<Error> {
        let outcomes = self.all.into_iter().filter_map(|one| one.outcome);
        outcomes.filter_map(Result::err).chain([error]).collect()
    }

    async fn conclude(self, cluster: &Cluster, deadline: Deadline) -> Vec<Error> {
        let mut failures = Vec::new();
        for One { target, last, outcome } in self.all {
            let outcome = match outcome {
                Some(outcome) => outcome,
                None => {
                    result_after_deadline(cluster, &target.name, last, deadline)
                        .boxed_local()
                        .await
                }
            };
            failures.extend(outcome.err());
        }
        failures
    }
}

/// Returns the result of an object after the deadline. It is read once if no watch has reported it.
async fn result_after_deadline(
    cluster: &Cluster,
    name: &str,
    last: Option<CustomResource>,
    deadline: Deadline,
) -> Result<()> {
    let last = if let Some(last) = last {
        last
    } else {
        let api = cluster.objects(Some(&cluster.namespace));
        match cluster.call(api.get_opt(name)).await? {
            Some(object) => CustomResource::read(cluster.kind_info(), &object),
            None => return Err(deleted(cluster, name)),
        }
    };
    match of(last.summary()) {
        Readiness::Ready => Ok(()),
        Readiness::Stalled => Err(stalled(last.summary(), cluster.flag())),
        Readiness::Waiting(_) => {
            let state = ("is not ready", "become so");
            Err(timed_out(cluster, name, Some(last.summary()), state, deadline, None).await)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn target(name: &str) -> Target {
        Target::of(&json!({"metadata": {"name": name}}))
    }

    #[test]
    fn object_that_is_named_twice_is_waited_for_once() {
        let twice = [target("b"), target("a"), target("b")];
        assert_eq!(distinct(&twice), [target("b"), target("a")]);
    }

    #[test]
    fn failed_watch_does_not_hide_other_results() {
        let targets = ["good", "bad", "late"].map(target);
        let mut seen = Progress::new(&targets);
        seen.all[0].outcome = Some(Ok(()));
        seen.all[1].outcome = Some(Err(Error::failed("bad")));
        let failures = seen.interrupted(Error::failed("forbidden"));
        assert_eq!(failures, [Error::failed("bad"), Error::failed("forbidden")]);
    }
}
