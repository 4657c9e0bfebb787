//! `kubectl appdeploy logs`: prints logs of the pods of apps or pod sets.

mod filter;
mod follow;
mod line;
mod read;
mod scope;
mod source;

use std::pin::Pin;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};
use model::NextCommand;
use regex::bytes::Regex;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::commands::connect::target;
use crate::error::{Error, Result};
use crate::output::duration;
use crate::resource::pod;
use crate::resource::selection::{self, Selection};
use crate::terminal::ui::Ui;

use filter::Filter;
use line::Prefixes;
use read::LogChunk;
use scope::Scope;

/// The default and the maximum of the number of logs that are followed concurrently. Each of them needs a connection and a buffer.
const MAX_REQUESTS: usize = 50;
const MOST_REQUESTS: usize = 1000;

/// The default number of lines for each of several pods, as in kubectl.
const DEFAULT_TAIL: i64 = 10;

/// Messages of the kubelet about a container that has not started, or has no previous run.
const NO_LOG: [&str; 3] = [
    "is waiting to start",
    "ContainerCreating",
    "previous terminated container",
];

/// Messages that a kubelet returns instead of a log that was deleted.
const KUBELET_ERRORS: [&[u8]; 2] = [
    b"unable to retrieve container logs for ",
    b"failed to try resolving symlinks in path ",
];

/// How to select one.
const EXAMPLE: &str = "logs {name}";

const EXAMPLES: &str = "\
Examples:
  # Print the logs of all pods; for several pods, the last 10 lines each
  {command} logs {name}

  # Follow the logs, including those of pods that start later
  {command} logs {name} -f

  # Print logs of several {many}, those with a label, or all
  {command} logs {name} {other} -f
  {command} logs -l team=shop -f
  {command} logs -A --since=5m

  # Print only matching lines, without health checks
  {command} logs {name} -f \\
    --include='(?i)error|warn' --exclude=/healthz

  # Print the logs of all containers, including injected ones
  {command} logs {name} --all-containers

  # Print the log of a container before it crashed
  {command} logs {name} --previous

  # Print everything of the last ten minutes, with the time
  {command} logs {name} --since=10m --tail=-1 --timestamps";

/// The flags of `logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "give each as a separate flag")]
pub struct Args {
    /// Names of {many}
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Select {many} by labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = selection::selector, conflicts_with_all = ["names", "all"])]
    selector: Option<String>,
    /// Select all {many} of the namespace
    #[arg(long, conflicts_with_all = ["names", "all_namespaces"])]
    all: bool,
    /// Select all {many} of all namespaces
    #[arg(short = 'A', long, conflicts_with = "names")]
    all_namespaces: bool,
    /// Print only lines that match this regular expression; can be repeated
    #[arg(long, value_name = "REGEX", value_parser = filter::parse)]
    include: Vec<Regex>,
    /// Omit lines that match this regular expression; can be repeated
    #[arg(long, value_name = "REGEX", value_parser = filter::parse)]
    exclude: Vec<Regex>,
    /// Maximum number of logs to follow at a time
    #[arg(long, value_name = "N", default_value_t = MAX_REQUESTS, value_parser = max_requests, requires = "follow")]
    max_log_requests: usize,
    /// Follow the logs, including those of pods that start later
    #[arg(short, long)]
    follow: bool,
    /// Container to print the log of; default: the application container
    #[arg(short, long, value_name = "CONTAINER", conflicts_with = "all_containers")]
    container: Option<String>,
    /// Print the logs of all containers, each line with the container
    #[arg(long)]
    all_containers: bool,
    /// Print the log of the container before its last restart
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Number of lines to print, from the end of each log; -1 prints all; default: all of one log, 10 of each of several
    #[arg(
        long,
        value_name = "LINES",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1..)
    )]
    tail: Option<i64>,
    /// Print only lines newer than this, like 10m
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    since: Option<Duration>,
    /// Print the time before each line
    #[arg(long)]
    timestamps: bool,
    /// Print the pod before each line; default: if there are several logs
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true
    )]
    prefix: Option<bool>,
}

fn max_requests(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_REQUESTS).contains(number));
    number.ok_or_else(|| format!("must be a number from 1 to {MOST_REQUESTS}"))
}

/// Runs the command.
pub async fn run(args: Args, kind: crd::Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    if !args.all_namespaces {
        let which = Selection {
            names: args.names.clone(),
            selector: args.selector.clone(),
            all: args.all,
        };
        which.require(kind, EXAMPLE)?;
    }
    let cluster = kube.connect().await?.about(kind);
    let mut scope = Scope::read(&args, &cluster).await?;
    let failures = std::mem::take(&mut scope.failures);
    if scope.workloads.is_empty() {
        if failures.is_empty() {
            selection::nothing(&cluster, ui);
        }
        return selection::conclude(failures, ui);
    }
    let mut printer = Printer {
        prefixes: Prefixes::new(
            args.prefix.unwrap_or(args.follow),
            ui.render_options().color,
            Ui::is_terminal(),
        ),
        filter: Filter::new(args.include.clone(), args.exclude.clone(), args.timestamps),
    };
    if args.follow {
        for failure in &failures {
            ui.error(failure);
        }
        // The number of logs is not known before.
        return follow::run(&args, &cluster, &scope, &mut printer, ui).await;
    }
    let result = print_all(&args, &cluster, &scope, &mut printer, ui).await;
    selection::conclude(failures.into_iter().chain(result.err()).collect(), ui)
}

/// Prints lines with their labels, unless they are filtered out.
struct Printer {
    prefixes: Prefixes,
    filter: Filter,
}

impl Printer {
    fn print(&mut self, label: &str, piece: &LogChunk, ui: &mut Ui) -> Result<()> {
        if self.filter.takes(label, piece) {
            ui.print_bytes(&self.prefixes.line(label, piece))?;
        }
        Ok(())
    }
}

/// Prints the current logs one after the other.
async fn print_all(args: &Args, cluster: &Cluster, scope: &Scope, printer: &mut Printer, ui: &mut Ui) -> Result<()> {
    let pods = scope.pods(cluster).await?;
    if pods.is_empty() {
        return Err(without_pods(cluster, scope));
    }
    let sources = args.sources(&pods)?;
    if args.prefix.is_none() && sources.len() > 1 {
        printer.prefixes.show();
    }
    let mut last = None;
    let mut has_any = false;
    for (pod, container) in &sources {
        let of_pod = Api::namespaced(cluster.client.clone(), &pod.namespace().unwrap_or_default());
        let params = LogParams {
            container: Some(container.clone()),
            ..args.params(sources.len())
        };
        let label = args.label(scope, pod, container);
        match print(cluster, &of_pod, pod, &params, &label, printer, ui).await? {
            None => has_any = true,
            Some(why) => {
                if let Some(before) = last.replace(format!("{label}: {why}")) {
                    ui.eprintln(&before);
                }
            }
        }
    }
    match last {
        Some(why) if has_any => ui.eprintln(&why),
        Some(why) => {
            return Err(Error::failed("no logs").why(why).next(status(cluster, scope)));
        }
        None => {}
    }
    Ok(())
}

/// Returns the command that shows the state of what was selected.
fn status(cluster: &Cluster, scope: &Scope) -> NextCommand {
    let words = cluster.kind_info();
    let all = || NextCommand::from(words.command).and("status");
    let mut workloads = scope.workloads.values();
    match (workloads.next(), workloads.next()) {
        (Some(one), None) if !scope.has_namespaces => words.verb("status", one.name()).and(cluster.flag()),
        _ if scope.has_namespaces => all().and("-A"),
        _ => all().and(cluster.flag()),
    }
}

/// Prints the log of a container as it comes. Returns why there is none.
async fn print(
    cluster: &Cluster,
    api: &Api<Pod>,
    pod: &Pod,
    params: &LogParams,
    label: &str,
    printer: &mut Printer,
    ui: &mut Ui,
) -> Result<Option<String>> {
    // Of a pod that no node has yet, the API server would give an empty log.
    if follow::writer(pod, params.container.as_deref().unwrap_or_default()).is_none() {
        return Ok(Some(silence(pod, params)));
    }
    let log = match cluster.attempt(api.log_stream(&pod.name_any(), params)).await? {
        Ok(log) => log,
        Err(kube::Error::Api(status)) if status.code == 400 => {
            let is_silent = NO_LOG.iter().any(|text| status.message.contains(text));
            return Ok(Some(if is_silent {
                silence(pod, params)
            } else {
                status.message
            }));
        }
        Err(source) => return Err(cluster.explain(source)),
    };
    let mut pieces = read::pieces(log).peekable();
    // A kubelet that no longer has a log says so in place of it, and the API server calls that a success.
    if let Some(Ok(first)) = Pin::new(&mut pieces).peek().await
        && is_kubelet_error(&first.bytes)
    {
        let text = String::from_utf8_lossy(&first.bytes).into_owned();
        let first = pieces.next().await;
        if Pin::new(&mut pieces).peek().await.is_none() {
            return Ok(Some(text));
        }
        if let Some(Ok(first)) = first {
            printer.print(label, &first, ui)?;
        }
    }
    while let Some(piece) = pieces.try_next().await.map_err(|source| broken(label, &source))? {
        printer.print(label, &piece, ui)?;
    }
    Ok(None)
}

/// Whether a line is what a kubelet prints instead of a log.
fn is_kubelet_error(line: &[u8]) -> bool {
    KUBELET_ERRORS.iter().any(|start| line.starts_with(start))
}

fn silence(pod: &Pod, params: &LogParams) -> String {
    if params.previous {
        "it has not been restarted".to_owned()
    } else {
        format!("it has not been started: {}", pod::word(pod))
    }
}

fn broken(pod: &str, source: &std::io::Error) -> Error {
    Error::failed(format!("the log of {pod} ended in the middle")).why(source.to_string())
}

fn without_pods(cluster: &Cluster, scope: &Scope) -> Error {
    let words = cluster.kind_info();
    let mut workloads = scope.workloads.values();
    let (Some(workload), None) = (workloads.next(), workloads.next()) else {
        let count = words.count(scope.workloads.len());
        return Error::failed(format!("{count} without pods, and so without logs")).next(status(cluster, scope));
    };
    let name = workload.name();
    let error = Error::failed(format!("{name} has no pods, and so no log"));
    if workload.wanted() == 0 {
        return error
            .why("it is scaled to zero")
            .next(words.verb("scale", name).and("--replicas=1").and(cluster.flag()));
    }
    let why = workload.explanation().map(|(text, _)| text);
    why.into_iter().fold(error, Error::why).next(status(cluster, scope))
}

impl Args {
    /// Returns the selected containers of a pod.
    fn containers(&self, pod: &Pod) -> Result<Vec<String>> {
        if self.all_containers {
            return Ok(target::containers(pod));
        }
        Ok(vec![target::container(pod, self.container.as_deref())?])
    }

    /// Returns all selected logs. If only some pods lack the container, that is not an error.
    fn sources<'a>(&self, pods: &'a [Pod]) -> Result<Vec<(&'a Pod, String)>> {
        let mut sources = Vec::new();
        let mut mistake = None;
        for pod in pods {
            match self.containers(pod) {
                Ok(names) => sources.extend(names.into_iter().map(|name| (pod, name))),
                Err(error) => mistake = Some(error),
            }
        }
        match mistake {
            Some(error) if sources.is_empty() => Err(error),
            _ => Ok(sources),
        }
    }

    /// Returns the prefix of a container's lines.
    fn label(&self, scope: &Scope, pod: &Pod, container: &str) -> String {
        let pod = scope.label(pod);
        if self.all_containers {
            format!("{pod}/{container}")
        } else {
            pod
        }
    }

    /// Returns what to ask for of each of so many logs.
    fn params(&self, logs: usize) -> LogParams {
        let tail = self.tail.or((logs > 1).then_some(DEFAULT_TAIL));
        LogParams {
            previous: self.previous,
            since_seconds: self
                .since
                .map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
            tail_lines: tail.filter(|tail| *tail >= 0),
            timestamps: self.timestamps,
            ..LogParams::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn params(line: &str, pods: usize) -> LogParams {
        Cli::parse_from(line.split(' ')).args.params(pods)
    }

    #[test]
    fn few_lines_of_many_pods_and_all_of_one() {
        assert_eq!(params("logs shop", 1).tail_lines, None);
        assert_eq!(params("logs shop", 2).tail_lines, Some(10));
        assert_eq!(params("logs shop --tail=-1", 2).tail_lines, None);
        assert_eq!(params("logs shop --tail 3", 1).tail_lines, Some(3));
        assert_eq!(params("logs shop --since=10m", 1).since_seconds, Some(600));
    }

    #[test]
    fn error_of_a_kubelet_is_not_a_log() {
        assert!(is_kubelet_error(
            b"unable to retrieve container logs for containerd://0123"
        ));
        assert!(!is_kubelet_error(b"listening on port 80"));
    }

    #[test]
    fn all_containers_have_a_log_each() {
        let pods: Vec<Pod> = ["a", "b"]
            .iter()
            .map(|name| {
                let proxy = (*name == "b").then(|| json!({"name": "proxy"}));
                let containers: Vec<_> = std::iter::once(json!({"name": "app"})).chain(proxy).collect();
                serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"containers": containers}})).unwrap()
            })
            .collect();
        let scope = Scope {
            workloads: std::collections::BTreeMap::new(),
            failures: Vec::new(),
            has_namespaces: false,
        };
        let labels = |line: &str| {
            let args = Cli::parse_from(line.split(' ')).args;
            let sources = args.sources(&pods)?;
            Ok(sources
                .iter()
                .map(|(pod, container)| args.label(&scope, pod, container))
                .collect::<Vec<_>>())
        };
        assert_eq!(labels("logs shop").unwrap(), ["a", "b"]);
        assert_eq!(labels("logs shop -c proxy").unwrap(), ["b"]);
        assert_eq!(
            labels("logs shop --all-containers").unwrap(),
            ["a/app", "b/app", "b/proxy"]
        );
        let said: Error = labels("logs shop -c db").unwrap_err();
        assert_eq!(said.sentence(), "b has no container db");
    }
}
