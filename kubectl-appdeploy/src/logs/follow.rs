//! Logs as they are written, also by pods and containers that come later.

use std::collections::HashSet;
use std::pin::pin;

use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

use super::Args;
use super::line::Prefixes;
use super::read::{Piece, pieces};
use crate::children;
use crate::connection::Cluster;
use crate::error::Result;
use crate::ui::Ui;
use crate::wait;
use crate::workload::Workload;

/// A container that writes: a pod, by its UID, its name, and how often it was started before.
type Writer = (String, String, i32);

/// A line, and who wrote it.
type Line = (String, Piece);

/// Prints until somebody ends it.
pub async fn run(
    args: &Args,
    cluster: &Cluster,
    workload: &Workload,
    prefixes: &mut Prefixes,
    ui: &mut Ui,
) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let config = watcher::Config::default().labels(&workload.kind().pod_selector(workload.name()));
    let mut news = pin!(wait::watch(cluster, api.clone(), config));
    let mut known = HashSet::new();
    let mut lines: SelectAll<BoxStream<'static, Line>> = SelectAll::new();
    // Those that are there now: how many they are says how much of each is shown.
    let mut first = Some(Vec::new());
    loop {
        let (pods, params) = tokio::select! {
            event = news.next() => match (event.transpose()?, &mut first) {
                (Some(Event::InitApply(pod) | Event::Apply(pod)), _) if !children::is_pod_of(&pod, workload) => continue,
                (Some(Event::InitApply(pod) | Event::Apply(pod)), Some(first)) => {
                    first.push(pod);
                    continue;
                }
                // Of those that come later nothing is left out.
                (Some(Event::InitApply(pod) | Event::Apply(pod)), None) => {
                    (vec![pod], LogParams { timestamps: args.timestamps, ..LogParams::default() })
                }
                (Some(Event::InitDone), Some(_)) => {
                    let pods = first.take().unwrap_or_default();
                    let logs = args.sources(&pods)?.len();
                    (pods, args.params(logs))
                }
                (Some(_), _) => continue,
                (None, _) => return Ok(()),
            },
            Some((label, line)) = lines.next(), if !lines.is_empty() => {
                ui.print_bytes(&prefixes.line(&label, &line))?;
                continue;
            }
        };
        // That one pod of several lacks a container is no mistake.
        for (pod, container) in args.sources(&pods).unwrap_or_default() {
            if writer(pod, &container).is_some_and(|writer| known.insert(writer)) {
                let params = LogParams {
                    follow: true,
                    container: Some(container.clone()),
                    ..params.clone()
                };
                lines.push(open(api.clone(), pod.name_any(), args.label(pod, &container), params));
            }
        }
    }
}

/// Returns the container of a pod that writes or has written, if it was started.
pub(super) fn writer(pod: &Pod, name: &str) -> Option<Writer> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    let mut all = inits.chain(status.container_statuses.iter().flatten());
    let container = all.find(|one| one.name == name)?;
    let state = container.state.as_ref()?;
    let is_started = state.running.is_some() || state.terminated.is_some();
    // One that crashed waits, and has written.
    let is_started = is_started || container.restart_count > 0;
    is_started.then(|| (pod.uid().unwrap_or_default(), name.to_owned(), container.restart_count))
}

/// Returns the lines of a pod. Where they end, for whatever reason, the watch says whether others come.
fn open(api: Api<Pod>, name: String, label: String, params: LogParams) -> BoxStream<'static, Line> {
    async move {
        let log = api.log_stream(&name, &params).await;
        let lines = log.map(|log| pieces(log).filter_map(|piece| std::future::ready(piece.ok())));
        match lines {
            Ok(lines) => lines.map(move |line| (label.clone(), line)).boxed(),
            Err(_) => stream::empty().boxed(),
        }
    }
    .flatten_stream()
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(state: &Value, restarts: i32) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "a", "uid": "1"}, "status": {"containerStatuses": [
            {"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": restarts, "state": state}]}}),
        )
        .unwrap()
    }

    #[test]
    fn each_start_of_a_container_writes_a_log_of_its_own() {
        let writer = |state: Value, restarts| writer(&pod(&state, restarts), "app");
        let running = || json!({"running": {}});
        assert_eq!(writer(running(), 0), Some(("1".to_owned(), "app".to_owned(), 0)));
        assert_ne!(writer(running(), 0), writer(running(), 1));
        assert_eq!(writer(json!({"terminated": {"exitCode": 1}}), 0), writer(running(), 0));
        assert_eq!(writer(json!({"waiting": {"reason": "ErrImagePull"}}), 0), None);
        assert_eq!(super::writer(&pod(&running(), 0), "proxy"), None);
        assert_eq!(super::writer(&Pod::default(), "app"), None);
    }
}
