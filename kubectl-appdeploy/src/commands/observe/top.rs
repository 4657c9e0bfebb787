//! `kubectl appdeploy top`: CPU and memory usage of pods, with their requests and limits.

use std::collections::{BTreeMap, HashMap};

use futures::try_join;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info;
use crate::cluster::pager::Pager;
use crate::error::{Error, Result};
use crate::output::quantity;
use crate::output::table::{Cell, Table};
use crate::resource::children;
use crate::resource::selection::{self, Listing, Selection};
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Show the usage of all {many} of the namespace
  {command} top

  # Show the usage of all {many} of all namespaces
  {command} top -A

  # Show the usage of two {many}
  {command} top {name} {other}

  # Show the usage of each pod of {an}
  {command} top {name}

Needs metrics-server. REQ is the request of the pods, LIM their limit.";

/// The flags of `top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Listing,
    /// Omit the header
    #[arg(long)]
    no_headers: bool,
}

/// Runs the command.
pub async fn run(args: Args, kind: crd::Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let namespace = args.which.scope(&cluster);
    let label = kind.pod_selector("");
    let label = label.trim_end_matches('=');
    let named = Selection::of_names(kind, &args.which.names)?;
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    let selector = if named.is_empty() {
        found = Pager::of(&cluster, namespace, args.which.selector.as_deref())
            .all()
            .await?;
        label.to_owned()
    } else {
        for one in named.resolve(&cluster, "top {name}").await? {
            match one {
                Ok(object) => found.push(object),
                Err(error) => failures.push(error),
            }
        }
        match &named.names[..] {
            [name] => kind.pod_selector(name),
            several => format!("{label} in ({})", several.join(",")),
        }
    };
    if found.is_empty() && !failures.is_empty() {
        return selection::conclude(failures, ui);
    }
    let all: Vec<Workload> = found
        .into_iter()
        .map(|object| Workload::read(kind, &kind_info::complete(kind, object)))
        .collect();
    if all.is_empty() {
        let place = namespace.map_or_else(String::new, |namespace| format!(" in {namespace} namespace"));
        ui.eprintln(&format!("No {} found{place}.", cluster.kind_info().many));
        return Ok(());
    }
    let params = ListParams::default().labels(&selector);
    let of_pods: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(cluster.client.clone(), namespace),
        None => Api::all(cluster.client.clone()),
    };
    let (pods, measured) = try_join!(
        cluster.call(of_pods.list(&params)),
        measured(&cluster, namespace, &params)
    )?;
    let uses = uses(&all, &pods.items, &measured);
    let table = if named.names.len() == 1 {
        of_one(&uses)
    } else {
        of_all(&all, &uses, args.which.all_namespaces)
    };
    let table = if args.no_headers { table.without_header() } else { table };
    let render = ui.render_options();
    ui.page(&table.fit("NAME", render.width).text(render.color))?;
    selection::conclude(failures, ui)
}

/// The usage of pods, by namespace and name.
type Measured = BTreeMap<(String, String), Amounts>;

/// Lists what metrics-server has measured.
async fn measured(cluster: &Cluster, namespace: Option<&str>, params: &ListParams) -> Result<Measured> {
    let resource = ApiResource {
        group: "metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "metrics.k8s.io/v1beta1".to_owned(),
        kind: "PodMetrics".to_owned(),
        plural: "pods".to_owned(),
    };
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    match cluster.attempt(api.list(params)).await? {
        Ok(list) => Ok(list.items.iter().map(used).collect()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 503) => Err(unmeasured(status.code == 404)),
        Err(source) => Err(cluster.explain(source)),
    }
}

/// Returns the error for a cluster without metrics.
fn unmeasured(is_absent: bool) -> Error {
    let error = Error::failed("usage of pods is not available");
    if is_absent {
        error
            .why("metrics-server is not installed: the API metrics.k8s.io is missing")
            .next("kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml")
    } else {
        error
            .why("metrics-server is installed, but does not answer")
            .next("kubectl describe apiservice v1beta1.metrics.k8s.io")
    }
}

/// Amounts of cpu and memory, in thousandths; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amounts {
    cpu: Option<i128>,
    memory: Option<i128>,
}

impl Amounts {
    /// Adds another; missing values are kept.
    fn add(&mut self, other: Self) {
        let sum = |a: Option<i128>, b: Option<i128>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        };
        self.cpu = sum(self.cpu, other.cpu);
        self.memory = sum(self.memory, other.memory);
    }
}

fn used(object: &DynamicObject) -> ((String, String), Amounts) {
    let mut all = Amounts::default();
    for container in object.data["containers"].as_array().into_iter().flatten() {
        let amount = |name: &str| {
            container["usage"]
                .get(name)
                .and_then(Value::as_str)
                .and_then(quantity::milli)
        };
        all.add(Amounts {
            cpu: amount("cpu"),
            memory: amount("memory"),
        });
    }
    ((object.namespace().unwrap_or_default(), object.name_any()), all)
}

/// The usage, the requests and the limits of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PodUsage {
    /// The workload that it belongs to, by its place among all.
    owner: usize,
    name: String,
    used: Amounts,
    request: Amounts,
    limit: Amounts,
}

/// Combines usage, requests and limits of each pod that has not ended.
fn uses(all: &[Workload], pods: &[Pod], measured: &Measured) -> Vec<PodUsage> {
    let lives = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let places: HashMap<(&str, &str), usize> = all
        .iter()
        .enumerate()
        .map(|(index, one)| ((one.namespace(), one.name()), index))
        .collect();
    let found = pods.iter().filter(lives).filter_map(|pod| {
        let label = all.first()?.kind().pod_label();
        let name = pod.labels().get(label)?;
        let namespace = pod.metadata.namespace.as_deref()?;
        let owner = *places.get(&(namespace, name.as_str()))?;
        if !children::is_pod_of(pod, &all[owner]) {
            return None;
        }
        let place = (pod.namespace().unwrap_or_default(), pod.name_any());
        let containers = || pod.spec.iter().flat_map(|spec| &spec.containers);
        Some(PodUsage {
            owner,
            name: pod.name_any(),
            used: measured.get(&place).copied().unwrap_or_default(),
            request: containers()
                .map(|one| amounts(one, true))
                .fold(Amounts::default(), plus),
            limit: containers()
                .map(|one| amounts(one, false))
                .fold(Amounts::default(), plus),
        })
    });
    found.collect()
}

fn plus(mut sum: Amounts, next: Amounts) -> Amounts {
    sum.add(next);
    sum
}

fn amounts(container: &Container, requests: bool) -> Amounts {
    let resources = container.resources.as_ref();
    let map = resources.and_then(|all| {
        if requests {
            all.requests.as_ref()
        } else {
            all.limits.as_ref()
        }
    });
    let amount = |name: &str| map.and_then(|map| quantity::milli(&map.get(name)?.0));
    Amounts {
        cpu: amount("cpu"),
        memory: amount("memory"),
    }
}

const COLUMNS: [&str; 6] = ["CPU", "CPU-REQ", "CPU-LIM", "MEM", "MEM-REQ", "MEM-LIM"];

/// Returns the rows of all: one for each.
fn of_all(all: &[Workload], uses: &[PodUsage], namespaces: bool) -> Table {
    let mut header = vec!["NAME", "PODS"];
    if namespaces {
        header.insert(0, "NAMESPACE");
    }
    header.extend(COLUMNS);
    let mut table = Table::new(header);
    let mut pods: Vec<Vec<&PodUsage>> = vec![Vec::new(); all.len()];
    for pod in uses {
        pods[pod.owner].push(pod);
    }
    for (one, mine) in all.iter().zip(pods) {
        let sum = |of: fn(&PodUsage) -> Amounts| mine.iter().map(|pod| of(pod)).fold(Amounts::default(), plus);
        let mut row: Vec<Cell> = vec![one.name().into(), mine.len().to_string().into()];
        if namespaces {
            row.insert(0, one.namespace().into());
        }
        row.extend(cells(sum(|pod| pod.used), sum(|pod| pod.request), sum(|pod| pod.limit)));
        table.row(row);
    }
    table
}

/// Returns the rows of an app or a pod set, one for each pod.
fn of_one(uses: &[PodUsage]) -> Table {
    let mut header = vec!["NAME"];
    header.extend(COLUMNS);
    let mut table = Table::new(header);
    let mut uses: Vec<&PodUsage> = uses.iter().collect();
    uses.sort_by_key(|pod| (pod.name.len(), &pod.name));
    for pod in uses {
        let mut row: Vec<Cell> = vec![pod.name.as_str().into()];
        row.extend(cells(pod.used, pod.request, pod.limit));
        table.row(row);
    }
    table
}

fn cells(used: Amounts, request: Amounts, limit: Amounts) -> [Cell; 6] {
    let write = |amount: Option<i128>, write: fn(i128) -> String| Cell::from(amount.map(write).unwrap_or_default());
    let unknown = |amount: Option<i128>, write: fn(i128) -> String| {
        Cell::from(amount.map_or_else(|| "<unknown>".to_owned(), write))
    };
    [
        unknown(used.cpu, quantity::cpu),
        write(request.cpu, quantity::cpu),
        write(limit.cpu, quantity::cpu),
        unknown(used.memory, quantity::memory),
        write(request.memory, quantity::memory),
        write(limit.memory, quantity::memory),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::status::list::tests::{broken, healthy};
    use crate::terminal::ui::RenderOptions;
    use serde_json::json;

    fn pod(app: &str, name: &str, phase: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default", "labels": {"appdeploy.dev/app": app}},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}},
                {"name": "proxy", "resources": {"requests": {"cpu": "0.1"}}}]},
            "status": {"phase": phase}}))
        .unwrap()
    }

    fn metrics(name: &str) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": name, "namespace": "default"}, "containers": [
                {"name": "app", "usage": {"cpu": "12345678n", "memory": "51200Ki"}},
                {"name": "proxy", "usage": {"cpu": "2m", "memory": "10Mi"}}]}))
        .unwrap()
    }

    #[test]
    fn usage_is_printed_next_to_the_requests() {
        let all = [healthy(), broken()];
        let pods = [
            pod("shop", "shop-5d4f8c7b6d-x2x9k", "Running"),
            pod("shop", "shop-5d4f8c7b6d-zz4ws", "Running"),
            pod("shop", "shop-5d4f8c7b6d-old", "Failed"),
            pod("other", "other-1", "Running"),
        ];
        let measured = [metrics("shop-5d4f8c7b6d-x2x9k")].iter().map(used).collect();
        let uses = uses(&all, &pods, &measured);
        insta::assert_snapshot!(of_one(&uses).text(false), @r"
        NAME                    CPU         CPU-REQ   CPU-LIM   MEM         MEM-REQ   MEM-LIM
        shop-5d4f8c7b6d-x2x9k   15m         200m      <none>    60Mi        64Mi      1024Mi
        shop-5d4f8c7b6d-zz4ws   <unknown>   200m      <none>    <unknown>   64Mi      1024Mi
        ");
        insta::assert_snapshot!(of_all(&all, &uses, false).text(false), @r"
        NAME   PODS   CPU         CPU-REQ   CPU-LIM   MEM         MEM-REQ   MEM-LIM
        shop   2      15m         400m      <none>    60Mi        128Mi     2048Mi
        blog   0      <unknown>   <none>    <none>    <unknown>   <none>    <none>
        ");
    }

    #[test]
    fn missing_metrics_server_is_reported() {
        insta::assert_snapshot!(unmeasured(true).text(&RenderOptions::default()), @r"
        error: usage of pods is not available
          why:  metrics-server is not installed: the API metrics.k8s.io is missing
          next: kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml
        ");
        insta::assert_snapshot!(unmeasured(false).text(&RenderOptions::default()), @r"
        error: usage of pods is not available
          why:  metrics-server is installed, but does not answer
          next: kubectl describe apiservice v1beta1.metrics.k8s.io
        ");
    }
}
