//! Values that are read from a cluster or a kubeconfig. Completion never waits for long, and prints no errors.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args as _, Command, FromArgMatches as _};
use crd::Kind;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::networking::v1::IngressClass;
use kube::api::{DynamicObject, ListParams};
use kube::config::Kubeconfig;
use kube::{Api, Resource, ResourceExt as _};

use super::Candidate;
use super::line::Line;
use super::source::Source;
use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info;
use crate::cluster::pager::Pager;
use crate::resource::custom_resource::CustomResource;
use crate::resource::selection;

/// The longest wait for values. Later ones are left out.
const TIMEOUT: Duration = Duration::from_millis(900);

/// Fetches the possible values. A hanging login does not delay the shell.
pub fn values(source: Source, line: &Line) -> Vec<Candidate> {
    let end = Instant::now() + TIMEOUT;
    let (send, receive) = channel();
    let line = line.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(Box::pin(ask(source, &line, &send)));
        }
    });
    let mut all = Vec::new();
    while let Ok(mut some) = receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
        all.append(&mut some);
    }
    all.sort();
    all
}

/// Parses the flags that choose the cluster, and ignores invalid ones.
fn flags(line: &Line) -> Option<KubeArgs> {
    let command = KubeArgs::augment_args(Command::new("").no_binary_name(true));
    let matches = command.try_get_matches_from(&line.kube).ok()?;
    let mut flags = KubeArgs::from_arg_matches(&matches).ok()?;
    flags.unattended = true;
    flags.request_timeout = Some(TIMEOUT);
    Some(flags)
}

async fn ask(source: Source, line: &Line, send: &Sender<Vec<Candidate>>) -> Option<()> {
    let flags = flags(line)?;
    let first = line.path.first().map(String::as_str);
    let kind = match first {
        Some("podset") => kind_info::of(Kind::PodSet),
        Some("queue") => &kind_info::QUEUE,
        _ => kind_info::of(Kind::AppDeploy),
    };
    if let Some(names) = configured(source, &flags) {
        return send.send(names).ok();
    }
    let cluster = flags.connect().await.ok()?.about(kind);
    let name = line.values.get("NAME").and_then(|names| names.first());
    let name = name.and_then(|name| selection::name(cluster.kind_info(), name).ok());
    let found = match source {
        Source::Objects | Source::Queues => {
            let cluster = match source {
                Source::Queues => cluster.about(&kind_info::QUEUE),
                _ => cluster,
            };
            let mut pages = Pager::of(&cluster, Some(&cluster.namespace), None);
            while let Some(page) = pages.next().await.ok()? {
                let names = page.iter().map(|object| candidate(&cluster, object));
                send.send(names.collect()).ok()?;
            }
            return Some(());
        }
        Source::Pods => pods(&cluster, name?).await?.iter().map(pod).collect(),
        Source::Containers => pods(&cluster, name?).await?.iter().flat_map(containers).collect(),
        Source::Revisions => revisions(&cluster, name?).await?,
        Source::Namespaces => named(&cluster, Api::<Namespace>::all(cluster.client.clone())).await?,
        Source::IngressClasses => named(&cluster, Api::<IngressClass>::all(cluster.client.clone())).await?,
        Source::Deployments => named(&cluster, spaced::<Deployment>(&cluster)).await?,
        Source::Secrets => named(&cluster, spaced::<Secret>(&cluster)).await?,
        Source::Contexts | Source::Clusters | Source::Users | Source::Files | Source::Words(_) | Source::Free => {
            return None;
        }
    };
    send.send(found).ok()
}

/// Returns an object with its state.
fn candidate(cluster: &Cluster, object: &DynamicObject) -> Candidate {
    let one = CustomResource::read(cluster.kind_info(), object);
    let reason = one.summary().reason();
    let state = match &one {
        CustomResource::Workload(workload) => format!("{} {reason}", workload.ready()),
        CustomResource::Queue(_) => reason,
    };
    Candidate::new(one.name(), state)
}

/// Returns names from the kubeconfig.
fn configured(source: Source, flags: &KubeArgs) -> Option<Vec<Candidate>> {
    if !matches!(source, Source::Contexts | Source::Clusters | Source::Users) {
        return None;
    }
    let config = match &flags.kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let config = config.unwrap_or_default();
    let names: Vec<String> = match source {
        Source::Contexts => config.contexts.into_iter().map(|named| named.name).collect(),
        Source::Clusters => config.clusters.into_iter().map(|named| named.name).collect(),
        _ => config.auth_infos.into_iter().map(|named| named.name).collect(),
    };
    Some(names.into_iter().map(|name| Candidate::new(name, "")).collect())
}

fn spaced<K>(cluster: &Cluster) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Returns only the names, so that no content, such as that of a Secret, is transferred.
async fn named<K>(cluster: &Cluster, api: Api<K>) -> Option<Vec<Candidate>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = cluster.call(api.list_metadata(&ListParams::default())).await.ok()?;
    let names = list
        .items
        .iter()
        .map(|object| Candidate::new(object.metadata.name.clone().unwrap_or_default(), ""));
    Some(names.collect())
}

async fn pods(cluster: &Cluster, name: &str) -> Option<Vec<Pod>> {
    let params = ListParams::default().labels(&cluster.kind.pod_selector(name));
    let pods = cluster.call(spaced::<Pod>(cluster).list(&params)).await.ok()?;
    Some(pods.items)
}

fn pod(pod: &Pod) -> Candidate {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
    Candidate::new(pod.name_any(), phase)
}

fn containers(pod: &Pod) -> Vec<Candidate> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    all.map(|one| Candidate::new(&one.name, one.image.clone().unwrap_or_default()))
        .collect()
}

/// Returns the revisions of an app, which are the revisions of its Deployment.
async fn revisions(cluster: &Cluster, name: &str) -> Option<Vec<Candidate>> {
    let params = ListParams::default().labels(&cluster.kind.pod_selector(name));
    let sets = cluster.call(spaced::<ReplicaSet>(cluster).list(&params)).await.ok()?;
    let revisions = sets.items.iter().filter_map(|set| {
        let revision = set.annotations().get("deployment.kubernetes.io/revision")?;
        let pod = set.spec.as_ref()?.template.as_ref()?.spec.as_ref()?;
        let image = pod.containers.first().and_then(|one| one.image.clone());
        Some(Candidate::new(revision, image.unwrap_or_default()))
    });
    Some(revisions.collect())
}
