//! `kubectl appdeploy logs`: what all pods of one write, each line with its pod.

mod follow;
mod line;

use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};

use crate::children;
use crate::connection::{Cluster, KubeArgs};
use crate::duration;
use crate::error::{Error, Result};
use crate::pod;
use crate::selection;
use crate::ui::Ui;
use crate::workload::{self, Workload};

use line::Prefixes;

/// The lines of each pod where there are several, as kubectl has it.
const FEW: i64 = 10;

const EXAMPLES: &str = "\
Examples:
  # What the pods of {an} have written: all of one pod, the last 10 lines of each of several
  {command} logs {name}

  # Go on, also with pods that come later
  {command} logs {name} -f

  # What a container wrote before it crashed
  {command} logs {name} --previous

  # All of the last ten minutes, with the time
  {command} logs {name} --since=10m --tail=-1 --timestamps";

/// The flags of `logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of {an}
    #[arg(value_name = "NAME")]
    name: String,
    /// Go on with what is written from now on, also by pods that come later
    #[arg(short, long)]
    follow: bool,
    /// What was written before the last restart
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Lines of each pod, from the end; -1 is all; default: all of one pod, 10 of each of several
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// Nothing older than this, like 10m
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    since: Option<Duration>,
    /// Put the time before each line
    #[arg(long)]
    timestamps: bool,
    /// Put the name of its pod before each line; default: where there are several pods
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true
    )]
    prefix: Option<bool>,
}

/// Runs the verb.
pub async fn run(args: Args, kind: crd::Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let name = selection::name(kind, &args.name)?;
    let api = cluster.objects(Some(&cluster.namespace));
    let object = workload::complete(kind, cluster.call(api.get(name)).await?);
    let workload = Workload::read(kind, &object);
    let pods = pods(&cluster, &workload).await?;
    let mut prefixes = Prefixes::new(args.prefix.unwrap_or(pods.len() > 1), ui.look().color);
    if args.follow {
        // Who follows does not know how many there will be.
        if args.prefix.is_none() {
            prefixes.show();
        }
        return follow::run(&args, &cluster, &workload, pods.len(), &mut prefixes, ui).await;
    }
    if pods.is_empty() {
        return Err(without_pods(&cluster, &workload));
    }
    let of_pod: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let params = args.params(pods.len());
    let mut last = None;
    let mut has_any = false;
    for pod in &pods {
        match print(&cluster, &of_pod, pod, &params, &mut prefixes, ui).await? {
            None => has_any = true,
            Some(why) => {
                let text = format!("{}: {why}", pod.name_any());
                if let Some(before) = last.replace(text) {
                    ui.say(&before);
                }
            }
        }
    }
    match last {
        Some(why) if has_any => ui.say(&why),
        Some(why) => {
            let words = cluster.words();
            let next = format!("{} status {}{}", words.command, workload.name(), cluster.flag());
            return Err(Error::failed("there is no log to show").why(why).next(next));
        }
        None => {}
    }
    Ok(())
}

/// Lists the pods, by name.
async fn pods(cluster: &Cluster, workload: &Workload) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let params = ListParams::default().labels(&workload.kind().pod_selector(workload.name()));
    let mut pods = cluster.call(api.list(&params)).await?.items;
    pods.retain(|pod| children::is_pod_of(pod, workload));
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

/// Prints the log of a pod as it comes. Returns why there is none.
async fn print(
    cluster: &Cluster,
    api: &Api<Pod>,
    pod: &Pod,
    params: &LogParams,
    prefixes: &mut Prefixes,
    ui: &mut Ui,
) -> Result<Option<String>> {
    // Of a pod that no node has yet, the API server would give an empty log.
    if follow::writer(pod).is_none() {
        return Ok(Some(silence(pod, params)));
    }
    let name = pod.name_any();
    let log = match cluster.attempt(api.log_stream(&name, params)).await? {
        Ok(log) => log,
        // Its container has not been started, or not twice.
        Err(kube::Error::Api(status)) if status.code == 400 => {
            return Ok(Some(silence(pod, params)));
        }
        Err(source) => return Err(cluster.explain(source)),
    };
    let mut lines = log.lines();
    while let Some(line) = lines.try_next().await.map_err(|source| broken(&name, &source))? {
        ui.print(&prefixes.line(&name, &line))?;
    }
    Ok(None)
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

fn without_pods(cluster: &Cluster, workload: &Workload) -> Error {
    let words = cluster.words();
    let (name, flag) = (workload.name(), cluster.flag());
    let error = Error::failed(format!("{name} has no pods, and so no log"));
    if workload.wanted() == 0 {
        return error
            .why("it is scaled to zero")
            .next(format!("{} scale {name} --replicas=1{flag}", words.command));
    }
    let why = workload.explanation().map(|(text, _)| text);
    why.into_iter()
        .fold(error, Error::why)
        .next(format!("{} status {name}{flag}", words.command))
}

impl Args {
    /// Returns what to ask for of each of so many pods.
    fn params(&self, pods: usize) -> LogParams {
        let tail = self.tail.or((pods > 1).then_some(FEW));
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
}
