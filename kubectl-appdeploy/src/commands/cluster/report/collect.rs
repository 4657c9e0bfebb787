//! Collects the data of a report with a constant number of requests, each with a limit. Forbidden parts are omitted and listed.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use model::CHILDREN;

use crate::cluster::api_error::is_missing_api;
use crate::cluster::connection::Cluster;
use crate::cluster::kind_info;
use crate::error::Result;
use crate::installation::check;
use crate::installation::check::finding::Finding;
use crate::installation::manifests::{self, Kind};
use crate::installation::operator::{self, Operator};
use crate::output::redactor::Owner;
use crate::resource::live_children;

/// Lists objects of one kind.
const OBJECTS: u32 = 500;
/// The maximum number of events.
const EVENTS: u32 = 2000;
/// The maximum numbers of lines and bytes of a log.
const LINES: i64 = 5000;
const BYTES: i64 = 2 * 1024 * 1024;

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct Section {
    /// Their file.
    pub file: String,
    /// Whose they are.
    pub owner: Owner,
    /// The objects, or why there are none.
    pub objects: Result<Vec<DynamicObject>>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// The log of a pod.
#[derive(Clone, Debug)]
pub struct Log {
    /// Its file.
    pub file: String,
    /// The end of it, or why there is none.
    pub text: Result<String>,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct Collected {
    /// The version of Kubernetes, or why it is not known.
    pub kubernetes: Result<String>,
    /// The operator.
    pub operator: Operator,
    /// What the checks have found.
    pub findings: Vec<Finding>,
    /// The objects.
    pub sections: Vec<Section>,
    /// The operator's logs.
    pub logs: Vec<Log>,
}

/// Collects all data. Apps, pod sets and queues are those of one namespace, or of all namespaces.
pub async fn collect(cluster: &Cluster, namespace: Option<&str>) -> Collected {
    let kubernetes = cluster.call(cluster.client.apiserver_version()).await;
    let findings = check::run_checks(cluster, check::CheckMode::Run).await;
    let operator = operator::find(cluster).await;
    let home = crd::OPERATOR_NAMESPACE;
    let ours = format!("{}={}", manifests::NAME_LABEL, operator::NAME);
    let of_apps = format!("{}={}", crd::label::MANAGED_BY, crd::label::MANAGED_BY_VALUE);
    let definitions = format!("{}={}", crd::label::PART_OF, crd::label::PART_OF_VALUE);
    let [validating, mutating] = Kind::webhooks().map(|kind| kind.resource);
    let operators =
        |file, resource, selector: &str| ListRequest::new(file, Owner::Operator, resource, Some(home), selector);
    let of_cluster = |file, resource, selector: &str| ListRequest::new(file, Owner::Operator, resource, None, selector);
    let apps = |file, resource, selector: &str| ListRequest::new(file, Owner::Person, resource, namespace, selector);
    let [app, set, queue] = kind_info::ALL.map(kind_info::resource);
    let events = ApiResource::erase::<Event>(&());
    let pods = ApiResource::erase::<Pod>(&());
    let fixed = [
        of_cluster("api/definitions.yaml", Kind::crd().resource, &definitions),
        of_cluster("api/validating-webhooks.yaml", validating, &ours),
        of_cluster("api/mutating-webhooks.yaml", mutating, &ours),
        of_cluster("operator/cluster-roles.yaml", Kind::cluster_role().resource, &ours),
        operators("operator/deployment.yaml", ApiResource::erase::<Deployment>(&()), &ours),
        operators("operator/pods.yaml", pods.clone(), &ours),
        operators("operator/lease.yaml", ApiResource::erase::<Lease>(&()), ""),
        operators("operator/events.yaml", events.clone(), ""),
        apps("apps/appdeploys.yaml", app, ""),
        apps("apps/podsets.yaml", set, ""),
        apps("apps/appqueues.yaml", queue, ""),
        apps(
            "apps/replicasets.yaml",
            ApiResource::erase::<ReplicaSet>(&()),
            crd::label::APP,
        ),
        apps("apps/pods.yaml", pods.clone(), crd::label::APP),
        apps("apps/podset-pods.yaml", pods, crd::label::PODSET),
        apps("apps/events.yaml", events, ""),
    ];
    let children = CHILDREN.iter().map(|kind| {
        let file = format!("apps/{}.yaml", kind.plural);
        ListRequest::new(&file, Owner::Person, live_children::resource(kind), namespace, &of_apps)
    });
    let requests = fixed.into_iter().chain(children);
    let mut sections = join_all(requests.map(|request| request.fetch(cluster))).await;
    only_of_apps(&mut sections);
    let pods = sections.iter().find(|section| section.file == "operator/pods.yaml");
    let pods = pods.and_then(|section| section.objects.as_ref().ok());
    let pods: Vec<Pod> = pods
        .into_iter()
        .flatten()
        .filter_map(|pod| pod.clone().try_parse().ok())
        .collect();
    Collected {
        kubernetes: kubernetes.map(|info| info.git_version),
        operator,
        findings,
        sections,
        logs: logs(cluster, &pods).await,
    }
}

/// A request for a list.
struct ListRequest {
    file: String,
    owner: Owner,
    resource: ApiResource,
    namespace: Option<String>,
    selector: String,
}

impl ListRequest {
    fn new(file: &str, owner: Owner, resource: ApiResource, namespace: Option<&str>, selector: &str) -> Self {
        Self {
            file: file.to_owned(),
            owner,
            resource,
            namespace: namespace.map(ToOwned::to_owned),
            selector: selector.to_owned(),
        }
    }

    async fn fetch(self, cluster: &Cluster) -> Section {
        let api: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &self.resource),
            None => Api::all_with(cluster.client.clone(), &self.resource),
        };
        let limit = if self.resource.kind == "Event" { EVENTS } else { OBJECTS };
        let mut params = ListParams::default().limit(limit);
        if !self.selector.is_empty() {
            params = params.labels(&self.selector);
        }
        let listed = match cluster.attempt(api.list(&params)).await {
            Ok(Ok(list)) => Ok(list),
            // A kind that is not installed has no objects.
            Ok(Err(kube::Error::Api(status))) if is_missing_api(&status) => Ok(kube::core::ObjectList {
                types: kube::core::TypeMeta::default(),
                metadata: kube::core::ListMeta::default(),
                items: Vec::new(),
            }),
            Ok(Err(source)) => Err(cluster.explain(source)),
            Err(error) => Err(error),
        };
        let is_cut = listed
            .as_ref()
            .is_ok_and(|list| list.metadata.continue_.as_ref().is_some_and(|next| !next.is_empty()));
        let types = kube::core::TypeMeta {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
        };
        Section {
            file: self.file,
            owner: self.owner,
            // The items of a list do not have kind and version.
            objects: listed.map(|list| {
                let items = list.items.into_iter().map(|mut object| {
                    object.types.get_or_insert_with(|| types.clone());
                    object
                });
                items.collect()
            }),
            is_cut,
        }
    }
}

/// Removes Events of objects other than apps and their children.
fn only_of_apps(sections: &mut [Section]) {
    let all = sections.iter().filter(|section| section.owner == Owner::Person);
    let known: BTreeSet<(String, String)> = all
        .filter_map(|section| section.objects.as_ref().ok())
        .flatten()
        .map(|object| (object.namespace().unwrap_or_default(), object.name_any()))
        .collect();
    for section in sections.iter_mut().filter(|section| section.file == "apps/events.yaml") {
        if let Ok(events) = &mut section.objects {
            events.retain(|event| {
                let about = &event.data["involvedObject"];
                let word = |key: &str| about[key].as_str().unwrap_or_default().to_owned();
                known.contains(&(word("namespace"), word("name")))
            });
        }
    }
}

async fn logs(cluster: &Cluster, pods: &[Pod]) -> Vec<Log> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), crd::OPERATOR_NAMESPACE);
    let wanted = pods.iter().flat_map(|pod| {
        let name = pod.name_any();
        // Only a container that was restarted has a previous log.
        let previous = crate::resource::pod::restarts(pod) > 0;
        [(name.clone(), false)]
            .into_iter()
            .chain(previous.then_some((name, true)))
    });
    let reads = wanted.map(|(name, previous)| {
        let api = &api;
        async move {
            let params = LogParams {
                tail_lines: Some(LINES),
                limit_bytes: Some(BYTES),
                timestamps: true,
                previous,
                ..LogParams::default()
            };
            let text = cluster.call(api.logs(&name, &params)).await;
            let end = if previous { ".previous" } else { "" };
            Log {
                file: format!("operator/logs/{name}{end}.log"),
                text,
            }
        }
    });
    join_all(reads).await
}
