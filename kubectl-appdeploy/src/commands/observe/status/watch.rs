//! `status -w`: redraws a page on a terminal, and prints a line for each change in a pipe.

mod lines;
mod screen;

use clap::ValueEnum;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};

use super::{Args, Format};
use crate::cluster::connection::Cluster;
use crate::cluster::wait::Deadline;
use crate::cluster::watch::{self, Change, Changes, Connection, Watched};
use crate::diagnosis::readiness::{self, Readiness};
use crate::error::{Error, Kind, Result};
use crate::resource::custom_resource::CustomResource;
use crate::terminal::ui::Ui;

/// When a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// Until all are ready.
    Ready,
    /// Until all are deleted.
    Deleted,
}

/// The result of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// What it waited for is so.
    Reached,
    /// This one will not become so by itself.
    Stalled(usize),
    /// The one with this name was deleted.
    Gone(String),
}

impl Until {
    /// Returns the result of a watch that ends. `names` are the watched objects; none for all.
    fn end(self, all: &[CustomResource], names: &[String]) -> Option<End> {
        let gone = names.iter().find(|name| !all.iter().any(|one| one.name() == *name));
        match (self, gone) {
            (Self::Deleted, _) => all.is_empty().then_some(End::Reached),
            (Self::Ready, Some(name)) => Some(End::Gone(name.clone())),
            (Self::Ready, None) if all.is_empty() => None,
            (Self::Ready, None) => {
                let verdicts: Vec<Readiness> = all.iter().map(|one| readiness::of(one.summary())).collect();
                if let Some(index) = verdicts.iter().position(|verdict| *verdict == Readiness::Stalled) {
                    return Some(End::Stalled(index));
                }
                let is_ready = verdicts.iter().all(|verdict| *verdict == Readiness::Ready);
                is_ready.then_some(End::Reached)
            }
        }
    }

    /// Returns the current and the awaited state, for the error of a timeout.
    const fn states(self) -> (&'static str, &'static str) {
        match self {
            Self::Ready => ("is not ready", "become so"),
            Self::Deleted => ("is not deleted", "be so"),
        }
    }
}

/// Runs until the awaited state, or Ctrl-C.
pub async fn run(args: &Args, cluster: &Cluster, ui: &mut Ui) -> Result<()> {
    let api = cluster.objects(args.which.scope(cluster));
    let mut config = watcher::Config::default();
    if let Some(selector) = &args.which.selector {
        config = config.labels(selector);
    }
    let mut found = Vec::new();
    for name in &args.which.names {
        // A missing object is an error, as without -w, unless its deletion is waited for.
        match args.until {
            Some(Until::Deleted) => found.extend(cluster.call(api.get_opt(name)).await?),
            _ => found.push(cluster.call(api.get(name)).await?),
        }
    }
    if found.is_empty() && !args.which.names.is_empty() {
        return Ok(());
    }
    let mut first = None;
    if let Some(name) = args.single() {
        first = found.pop();
        config = config.fields(&format!("metadata.name={name}"));
    }
    let changes = only(watch::follow_all(cluster, api, config), args.which.names.clone());
    // --until without --timeout does not wait indefinitely for an unreachable cluster.
    let connection = Connection::first(args.until.is_some() && args.timeout.is_none());
    let mut all = Vec::new();
    let show = Box::pin(async {
        if ui.screen() && !matches!(args.output, Some(Format::Json | Format::Yaml | Format::Name)) {
            let first = first.map(|object| CustomResource::read(cluster.kind_info(), &object));
            screen::run(args, cluster, first, (changes, connection), &mut all, ui).await
        } else {
            lines::run(args, cluster, Watched::new(changes, connection), &mut all, ui).await
        }
    });
    let Some((until, deadline)) = args.until.zip(args.timeout.map(Deadline::after)) else {
        return show.await;
    };
    match deadline.bound(show).await {
        Some(outcome) => outcome,
        None => Err(timed_out(args, cluster, until, &all, deadline).await),
    }
}

/// Keeps what concerns these names; without names, everything.
fn only(changes: Changes<Event<DynamicObject>>, names: Vec<String>) -> Changes<Event<DynamicObject>> {
    let concerns = move |change: &Result<Change<Event<DynamicObject>>>| match change {
        Ok(Change::Begin(event) | Change::New(event)) => match event {
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => {
                names.is_empty() || names.contains(&object.name_any())
            }
            Event::Init | Event::InitDone => true,
        },
        Ok(Change::Lost(_)) | Err(_) => true,
    };
    changes
        .filter(move |change| std::future::ready(concerns(change)))
        .boxed()
}

/// Returns the error of a timeout, about the first object that is not in the awaited state.
async fn timed_out(args: &Args, cluster: &Cluster, until: Until, all: &[CustomResource], deadline: Deadline) -> Error {
    let last = match until {
        Until::Ready => all.iter().find(|one| readiness::of(one.summary()) != Readiness::Ready),
        Until::Deleted => all.first(),
    };
    let Some(name) = last
        .map(CustomResource::name)
        .or(args.which.names.first().map(String::as_str))
    else {
        let words = cluster.kind_info();
        return Error::new(
            Kind::TimedOut,
            format!("there are no {} after {}", words.many, deadline.text()),
        );
    };
    readiness::timed_out(
        cluster,
        name,
        last.map(CustomResource::summary),
        until.states(),
        deadline,
        None,
    )
    .await
}

/// Ends a watch that is over.
fn ended(args: &Args, cluster: &Cluster, all: &[CustomResource]) -> Option<Result<()>> {
    let end = args.until?.end(all, &args.which.names)?;
    Some(match end {
        End::Reached => Ok(()),
        End::Stalled(index) => Err(readiness::stalled(all[index].summary(), cluster.flag())),
        End::Gone(name) => Err(readiness::deleted(cluster, &name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::status::list::tests::{app, broken, cond, listed, workers};
    use serde_json::json;

    #[test]
    fn watch_ends_when_all_are_ready_or_one_is_stalled() {
        let works = app(
            "shop",
            &json!({"image": "nginx"}),
            &json!({"observedGeneration": 1, "conditions": [cond("Ready", "True", "Available", "")]}),
        );
        let all = listed([works, workers(), broken()]);
        let works = &all[..1];
        let until = Until::Ready;
        let (none, shop) = (&[][..], &["shop".to_owned()][..]);
        assert_eq!(until.end(&[], none), None, "there may come some");
        assert_eq!(until.end(&[], shop), Some(End::Gone("shop".to_owned())));
        assert_eq!(until.end(works, shop), Some(End::Reached));
        let both = ["shop", "blog"].map(str::to_owned);
        assert_eq!(until.end(works, &both), Some(End::Gone("blog".to_owned())));
        assert_eq!(until.end(&all[..2], none), None);
        assert_eq!(until.end(&all, none), Some(End::Stalled(2)));
    }

    #[test]
    fn watch_for_a_deletion_ends_when_all_are_deleted() {
        let blog = ["blog".to_owned()];
        assert_eq!(Until::Deleted.end(&listed([broken()]), &blog), None);
        assert_eq!(Until::Deleted.end(&[], &blog), Some(End::Reached));
    }
}
