//! `kubectl appdeploy logs`: what all pods of one write, each line with its pod.

mod follow;
mod line;
mod read;
mod source;

use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};

use crate::connection::{Cluster, KubeArgs};
use crate::duration;
use crate::error::{Error, Result};
use crate::pod;
use crate::selection;
use crate::target;
use crate::ui::Ui;
use crate::workload::{self, Workload};

use line::Prefixes;

/// The lines of each pod where there are several, as kubectl has it.
const FEW: i64 = 10;

/// What kubelets say of a container that has not been started, or not twice.
const SILENT: [&str; 3] = [
    "is waiting to start",
    "ContainerCreating",
    "previous terminated container",
];

const EXAMPLES: &str = "\
Examples:
  # What the pods of {an} wrote; of several, the last 10 lines of each
  {command} logs {name}

  # Go on, also with pods that come later
  {command} logs {name} -f

  # What all containers of its pods write, also those beside the application
  {command} logs {name} --all-containers

  # What a container wrote before it crashed
  {command} logs {name} --previous

  # All of the last ten minutes, with the time
  {command} logs {name} --since=10m --tail=-1 --timestamps";

/// The flags of `logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// Name of {an}
    #[arg(value_name = "NAME")]
    name: String,
    /// Go on with what is written from now on, also by pods that come later
    #[arg(short, long)]
    follow: bool,
    /// Container whose log is shown; default: that of the application
    #[arg(short, long, value_name = "CONTAINER", conflicts_with = "all_containers")]
    container: Option<String>,
    /// The logs of all containers, each line with its container
    #[arg(long)]
    all_containers: bool,
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
    /// Put the name of its pod before each line; default: where there are several logs
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
    let mut prefixes = Prefixes::new(args.prefix.unwrap_or(args.follow), ui.look().color, Ui::is_terminal());
    if args.follow {
        // Who follows does not know how many there will be.
        return follow::run(&args, &cluster, &workload, &mut prefixes, ui).await;
    }
    let pods = target::pods(&cluster, &workload).await?;
    if pods.is_empty() {
        return Err(without_pods(&cluster, &workload));
    }
    let sources = args.sources(&pods)?;
    if args.prefix.is_none() && sources.len() > 1 {
        prefixes.show();
    }
    let of_pod: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let mut last = None;
    let mut has_any = false;
    for (pod, container) in &sources {
        let params = LogParams {
            container: Some(container.clone()),
            ..args.params(sources.len())
        };
        match print(
            &cluster,
            &of_pod,
            pod,
            &params,
            &args.label(pod, container),
            &mut prefixes,
            ui,
        )
        .await?
        {
            None => has_any = true,
            Some(why) => {
                let text = format!("{}: {why}", args.label(pod, container));
                if let Some(before) = last.replace(text) {
                    ui.say(&before);
                }
            }
        }
    }
    match last {
        Some(why) if has_any => ui.say(&why),
        Some(why) => {
            let next = cluster.words().verb("status", workload.name()).and(cluster.flag());
            return Err(Error::failed("there is no log to show").why(why).next(next));
        }
        None => {}
    }
    Ok(())
}

/// Prints the log of a container as it comes. Returns why there is none.
async fn print(
    cluster: &Cluster,
    api: &Api<Pod>,
    pod: &Pod,
    params: &LogParams,
    label: &str,
    prefixes: &mut Prefixes,
    ui: &mut Ui,
) -> Result<Option<String>> {
    // Of a pod that no node has yet, the API server would give an empty log.
    if follow::writer(pod, params.container.as_deref().unwrap_or_default()).is_none() {
        return Ok(Some(silence(pod, params)));
    }
    let log = match cluster.attempt(api.log_stream(&pod.name_any(), params)).await? {
        Ok(log) => log,
        Err(kube::Error::Api(status)) if status.code == 400 => {
            let is_silent = SILENT.iter().any(|text| status.message.contains(text));
            return Ok(Some(if is_silent {
                silence(pod, params)
            } else {
                status.message
            }));
        }
        Err(source) => return Err(cluster.explain(source)),
    };
    let mut pieces = read::pieces(log);
    while let Some(piece) = pieces.try_next().await.map_err(|source| broken(label, &source))? {
        ui.print_bytes(&prefixes.line(label, &piece))?;
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
            .next(words.verb("scale", name).and("--replicas=1").and(flag));
    }
    let why = workload.explanation().map(|(text, _)| text);
    why.into_iter()
        .fold(error, Error::why)
        .next(words.verb("status", name).and(flag))
}

impl Args {
    /// Returns the containers of a pod whose logs are meant.
    fn containers(&self, pod: &Pod) -> Result<Vec<String>> {
        if self.all_containers {
            return Ok(target::containers(pod));
        }
        Ok(vec![target::container(pod, self.container.as_deref())?])
    }

    /// Returns all logs that are meant. That one pod of several lacks a container is no mistake.
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

    /// Returns what stands before the lines of a container.
    fn label(&self, pod: &Pod, container: &str) -> String {
        if self.all_containers {
            format!("{}/{container}", pod.name_any())
        } else {
            pod.name_any()
        }
    }

    /// Returns what to ask for of each of so many logs.
    fn params(&self, logs: usize) -> LogParams {
        let tail = self.tail.or((logs > 1).then_some(FEW));
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
    fn all_containers_have_a_log_each() {
        let pods: Vec<Pod> = ["a", "b"]
            .iter()
            .map(|name| {
                let proxy = (*name == "b").then(|| json!({"name": "proxy"}));
                let containers: Vec<_> = std::iter::once(json!({"name": "app"})).chain(proxy).collect();
                serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"containers": containers}})).unwrap()
            })
            .collect();
        let labels = |line: &str| {
            let args = Cli::parse_from(line.split(' ')).args;
            let sources = args.sources(&pods)?;
            Ok(sources
                .iter()
                .map(|(pod, container)| args.label(pod, container))
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
