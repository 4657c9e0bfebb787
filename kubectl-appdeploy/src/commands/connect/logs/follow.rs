//! Follows logs, including those of pods and containers that start later.

use std::collections::HashSet;
use std::io;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};

use super::read::{LogChunk, pieces};
use super::scope::Scope;
use super::source::{self, Failure, Source};
use super::{Args, Printer};
use crate::cluster::connection::Cluster;
use crate::cluster::watch::{self, Connection, Watched};
use crate::error::{Error, Result};
use crate::terminal::ui::Ui;

/// A container that writes: a pod, by its UID, its name, and how often it was started before.
type ContainerRun = (String, String, i32);

/// A line and its container.
type Line = (String, std::result::Result<LogChunk, kube::Error>);

type Pieces = BoxStream<'static, io::Result<LogChunk>>;

/// Prints until Ctrl-C.
pub(super) async fn run(
    args: &Args,
    cluster: &Cluster,
    scope: &Scope,
    printer: &mut Printer,
    ui: &mut Ui,
) -> Result<()> {
    let config = watcher::Config::default().labels(&scope.selector(cluster));
    let changes = watch::follow_all(cluster, scope.api(cluster), config);
    let mut news = Watched::new(changes, Connection::first(false));
    let mut known = HashSet::new();
    let mut lines: SelectAll<BoxStream<'static, Line>> = SelectAll::new();
    // The number of running containers determines the default number of lines.
    let mut first = Some(Vec::new());
    let mut is_warned = false;
    loop {
        let (pods, params) = tokio::select! {
            event = news.next(ui) => match (event?, &mut first) {
                // An interrupted list begins again.
                (Some(Event::Init), Some(first)) => {
                    first.clear();
                    continue;
                }
                (Some(Event::InitApply(pod) | Event::Apply(pod)), _) if !scope.has(&pod) => continue,
                (Some(Event::InitApply(pod) | Event::Apply(pod)), Some(first)) => {
                    first.push(pod);
                    continue;
                }
                // Logs of later pods are printed from their start.
                (Some(Event::InitApply(pod) | Event::Apply(pod)), None) => {
                    (vec![pod], LogParams { timestamps: args.timestamps, ..LogParams::default() })
                }
                (Some(Event::InitDone), Some(_)) => {
                    let pods = first.take().unwrap_or_default();
                    let sources = args.sources(&pods)?;
                    let logs = sources.iter().filter(|(pod, name)| writer(pod, name).is_some()).count();
                    if logs > args.max_log_requests {
                        return Err(too_many(logs, args.max_log_requests));
                    }
                    let logs = sources.len();
                    (pods, args.params(logs))
                }
                // Its log is not followed again: a pod of the same name has another UID.
                (Some(Event::Delete(pod)), _) => {
                    let uid = pod.uid().unwrap_or_default();
                    known.retain(|(of, _, _): &ContainerRun| *of != uid);
                    continue;
                }
                (Some(_), _) => continue,
                (None, _) => return Ok(()),
            },
            Some((label, line)) = lines.next(), if !lines.is_empty() => {
                match line {
                    Ok(line) => printer.print(&label, &line, ui)?,
                    Err(error) => report(cluster, &label, error, ui)?,
                }
                continue;
            }
        };
        // Only some pods may have the container.
        for (pod, container) in args.sources(&pods).unwrap_or_default() {
            let Some(writer) = writer(pod, &container).filter(|writer| !known.contains(writer)) else {
                continue;
            };
            if lines.len() >= args.max_log_requests {
                // Each later event of the pod tries again.
                if !std::mem::replace(&mut is_warned, true) {
                    let label = args.label(scope, pod, &container);
                    ui.warn(&format!(
                        "{label} is not followed: {} logs are already, see --max-log-requests",
                        lines.len()
                    ));
                }
                continue;
            }
            known.insert(writer.clone());
            let params = LogParams {
                container: Some(container.clone()),
                ..params.clone()
            };
            let label = args.label(scope, pod, &container);
            let source = ContainerLog {
                api: Api::namespaced(cluster.client.clone(), &pod.namespace().unwrap_or_default()),
                name: pod.name_any(),
                writer,
            };
            lines.push(
                source::follow(source, params)
                    .map(move |line| (label.clone(), line))
                    .boxed(),
            );
        }
    }
}

fn too_many(logs: usize, most: usize) -> Error {
    Error::usage(format!("{logs} logs are selected, and at most {most} are followed"))
        .why("each one is a connection to the API server and to a node")
        .next("select fewer with a name or -l, or raise --max-log-requests")
}

/// Returns the container of a pod that writes or has written, if it was started.
pub(super) fn writer(pod: &Pod, name: &str) -> Option<ContainerRun> {
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

/// The log of one container of a pod.
struct ContainerLog {
    api: Api<Pod>,
    name: String,
    writer: ContainerRun,
}

impl Source for ContainerLog {
    fn open(&mut self, params: LogParams) -> BoxFuture<'_, std::result::Result<Pieces, Failure>> {
        async move {
            let log = self.api.log_stream(&self.name, &params).await?;
            Ok(pieces(log))
        }
        .boxed()
    }

    fn is_writing(&mut self) -> BoxFuture<'_, bool> {
        async move {
            match self.api.get_opt(&self.name).await {
                Ok(pod) => pod.is_some_and(|pod| is_running(&pod, &self.writer)),
                // Without an answer it is not known to have ended.
                Err(_) => true,
            }
        }
        .boxed()
    }
}

/// Whether a container runs that was seen writing, and was not restarted since.
fn is_running(pod: &Pod, seen: &ContainerRun) -> bool {
    let inits = pod
        .status
        .iter()
        .flat_map(|status| status.init_container_statuses.iter().flatten());
    let containers = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let mut running = inits
        .chain(containers)
        .filter(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()));
    running.any(|one| writer(pod, &one.name).as_ref() == Some(seen))
}

/// Returns the error if the user may not read logs, which ends the command. Prints other errors.
fn report(cluster: &Cluster, label: &str, error: kube::Error, ui: &mut Ui) -> Result<()> {
    match &error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => return Err(cluster.explain(error)),
        kube::Error::Api(status) if status.code == 404 => {}
        _ => {
            let why = cluster.explain(error);
            ui.eprintln(&format!("the log of {label} can't be read: {}", why.sentence()));
        }
    }
    Ok(())
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
    fn each_start_of_a_container_has_its_own_log() {
        let writer = |state: Value, restarts| writer(&pod(&state, restarts), "app");
        let running = || json!({"running": {}});
        assert_eq!(writer(running(), 0), Some(("1".to_owned(), "app".to_owned(), 0)));
        assert_ne!(writer(running(), 0), writer(running(), 1));
        assert_eq!(writer(json!({"terminated": {"exitCode": 1}}), 0), writer(running(), 0));
        assert_eq!(writer(json!({"waiting": {"reason": "ErrImagePull"}}), 0), None);
        assert_eq!(super::writer(&pod(&running(), 0), "proxy"), None);
        assert_eq!(super::writer(&Pod::default(), "app"), None);

        let seen = writer(running(), 0).unwrap();
        assert!(is_running(&pod(&running(), 0), &seen));
        assert!(!is_running(&pod(&json!({"terminated": {"exitCode": 1}}), 0), &seen));
        assert!(!is_running(&pod(&running(), 1), &seen));
    }
}
