//! Logs as they are written, also by pods and containers that come later.

use std::collections::HashSet;
use std::pin::pin;

use futures::stream::{BoxStream, SelectAll};
use futures::{AsyncBufReadExt as _, FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

use super::Args;
use super::line::Prefixes;
use crate::children;
use crate::connection::Cluster;
use crate::error::Result;
use crate::ui::Ui;
use crate::wait;
use crate::workload::Workload;

/// A container that writes: a pod, by its UID, and how often its container was started before.
type Writer = (String, i32);

/// A line, and the pod that wrote it.
type Line = (String, String);

/// Prints until somebody ends it.
pub async fn run(
    args: &Args,
    cluster: &Cluster,
    workload: &Workload,
    pods: usize,
    prefixes: &mut Prefixes,
    ui: &mut Ui,
) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let config = watcher::Config::default().labels(&workload.kind().pod_selector(workload.name()));
    let mut news = pin!(wait::watch(cluster, api.clone(), config));
    let mut known = HashSet::new();
    let mut lines: SelectAll<BoxStream<'static, Line>> = SelectAll::new();
    // Those that are there now begin where the flags say; of the others nothing is left out.
    let mut params = LogParams {
        follow: true,
        ..args.params(pods)
    };
    loop {
        tokio::select! {
            event = news.next() => match event.transpose()? {
                Some(Event::InitApply(pod) | Event::Apply(pod)) if children::is_pod_of(&pod, workload) => {
                    if writer(&pod).is_some_and(|writer| known.insert(writer)) {
                        lines.push(open(api.clone(), pod.name_any(), params.clone()));
                    }
                }
                Some(Event::InitDone) => {
                    params = LogParams { follow: true, timestamps: args.timestamps, ..LogParams::default() };
                }
                Some(_) => {}
                None => return Ok(()),
            },
            Some((pod, line)) = lines.next(), if !lines.is_empty() => ui.print(&prefixes.line(&pod, &line))?,
        }
    }
}

/// Returns the container of a pod that writes or has written, if it was started.
pub(super) fn writer(pod: &Pod) -> Option<Writer> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let container = containers.first()?;
    let state = container.state.as_ref()?;
    let is_started = state.running.is_some() || state.terminated.is_some();
    is_started.then(|| (pod.uid().unwrap_or_default(), container.restart_count))
}

/// Returns the lines of a pod. Where they end, for whatever reason, the watch says whether others come.
fn open(api: Api<Pod>, name: String, params: LogParams) -> BoxStream<'static, Line> {
    async move {
        let log = api.log_stream(&name, &params).await;
        let lines = log.map(|log| Box::pin(log).lines().filter_map(|line| std::future::ready(line.ok())));
        match lines {
            Ok(lines) => lines.map(move |line| (name.clone(), line)).boxed(),
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
        let running = json!({"running": {}});
        assert_eq!(writer(&pod(&running, 0)), Some(("1".to_owned(), 0)));
        assert_ne!(writer(&pod(&running, 0)), writer(&pod(&running, 1)));
        assert_eq!(
            writer(&pod(&json!({"terminated": {"exitCode": 1}}), 0)),
            writer(&pod(&running, 0))
        );
        assert_eq!(writer(&pod(&json!({"waiting": {"reason": "ErrImagePull"}}), 0)), None);
        assert_eq!(writer(&Pod::default()), None);
    }
}
