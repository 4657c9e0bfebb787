//! The facts about a cluster and AppDeploy in it. Everything is read concurrently; findings are made elsewhere.

use futures::future::{join_all, try_join_all};
use futures::join;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::networking::v1::IngressClass;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};

use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::kind_info;
use crate::cluster::pager::Pager;
use crate::error::{Error, Result};
use crate::installation::check::CheckMode;
use crate::installation::manifests::{self, Kind, Options, policy};
use crate::installation::operator::{self, Operator};
use crate::installation::webhook_ready;
use crate::resource::custom_resource::CustomResource;

/// The maximum number of nodes that are checked.
const NODES: u32 = 500;

/// An object of an installation.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is.
    pub kind: Kind,
    /// What this plugin would write.
    pub wanted: DynamicObject,
    /// The existing object.
    pub found: Result<Option<DynamicObject>>,
}

impl Part {
    /// Returns the existing object, if it was read.
    pub fn there(&self) -> Option<&DynamicObject> {
        self.found.as_ref().ok()?.as_ref()
    }

    /// Returns its name as in kubectl, with its namespace.
    pub fn title(&self) -> String {
        let place = manifests::place("in", &self.wanted);
        format!("{}{place}", self.kind.title(&self.wanted.name_any()))
    }
}

/// Facts before an installation.
#[derive(Clone, Debug)]
pub struct Before {
    /// The objects that the API server rejects in a dry run, and why.
    pub refused: Vec<(String, Error)>,
}

/// Facts about an installation.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The holder of the Lease.
    pub lease: Result<Option<Lease>>,
    /// The operator's pods.
    pub pods: Result<Vec<Pod>>,
    /// All apps, pod sets and queues.
    pub resources: Result<Vec<CustomResource>>,
    /// Why the API server got no answer from the operator's webhooks, if it got none.
    pub answer: Option<Result<Option<String>>>,
}

/// The facts that the checks evaluate.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was asked.
    pub now: Timestamp,
    /// The version of Kubernetes: `v1.36.3`.
    pub version: String,
    /// The nodes.
    pub nodes: Result<Vec<Node>>,
    /// The kinds of ingress controllers.
    pub classes: Result<Vec<IngressClass>>,
    /// The operator.
    pub operator: Operator,
    /// The objects of an installation with the settings of the existing one, or with the default settings.
    pub parts: Vec<Part>,
    /// Asked before an installation only.
    pub before: Option<Before>,
    /// Asked of an installation only.
    pub installed: Option<Installed>,
}

impl Facts {
    /// Returns the parts of a kind.
    pub fn parts_of(&self, kind: &Kind) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.kind == *kind)
    }

    /// Whether webhooks are configured.
    pub fn has_webhooks(&self) -> bool {
        match &self.operator {
            Operator::Installed(deployment, _) => operator::has_webhooks(deployment),
            Operator::Absent | Operator::Unknown(_) => true,
        }
    }

    /// Whether OLM manages the installation.
    pub fn is_by_olm(&self) -> bool {
        matches!(&self.operator, Operator::Installed(deployment, _) if deployment.labels().contains_key("olm.owner"))
    }
}

/// Reads all facts. Fails if the API server does not answer, or does not authenticate the user.
pub async fn gather(cluster: &Cluster, aim: CheckMode<'_>) -> Result<Facts> {
    let version = cluster.call(cluster.client.apiserver_version()).await?.git_version;
    // An anonymous user may only read the version.
    let nodes = list::<Node>(
        cluster,
        Api::all(cluster.client.clone()),
        &ListParams::default().limit(NODES),
    )
    .await;
    if let Err(error) = &nodes
        && !error.is_forbidden()
    {
        return Err(error.clone());
    }
    let all = ListParams::default();
    let (classes, operator) = join!(
        list(cluster, Api::all(cluster.client.clone()), &all),
        operator::find(cluster),
    );
    let options = match aim {
        CheckMode::Install(scope) if scope.is_given() => scope.options(),
        CheckMode::Install(_) | CheckMode::Run => options(&operator),
    };
    let mut wanted = manifests::objects(&options)?;
    // One that is too old has another finding.
    if matches!(policy::are_served(cluster).await, Ok(false)) {
        wanted.retain(|object| !policy::is_one(object));
    }
    let (before, installed) = match aim {
        CheckMode::Install(_) => (Some(try_before(cluster, &options, &wanted).await), None),
        CheckMode::Run => (None, Some(installed(cluster, &operator, &options).await)),
    };
    let parts = join_all(wanted.into_iter().map(|wanted| async move {
        let kind = Kind::of(&wanted);
        let api = kind.api_of(&cluster.client, &wanted);
        let found = cluster.call(api.get_opt(&wanted.name_any())).await;
        Part { kind, wanted, found }
    }));
    Ok(Facts {
        now: Timestamp::now(),
        version,
        nodes,
        classes,
        operator,
        parts: parts.await,
        before,
        installed,
    })
}

/// Returns the options of the existing installation that determine its objects.
fn options(operator: &Operator) -> Options {
    match operator {
        Operator::Installed(deployment, _) => Options {
            namespaces: operator::watched(deployment),
            webhooks: operator::has_webhooks(deployment),
            ..Options::default()
        },
        Operator::Absent | Operator::Unknown(_) => Options::default(),
    }
}

/// Lets the API server check what would be written. What it can't tell yet is left out: an object in a namespace that
/// does not exist.
async fn try_before(cluster: &Cluster, options: &Options, wanted: &[DynamicObject]) -> Before {
    // For some namespaces only, `install` omits policies that the user may not write.
    let is_needed = |object: &DynamicObject| options.namespaces.is_empty() || !policy::is_one(object);
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(MANAGER).validation_strict()
    };
    let tries = wanted.iter().map(|object| {
        let params = &params;
        async move {
            let kind = Kind::of(object);
            let name = object.name_any();
            let api = kind.api_of(&cluster.client, object);
            let patch = Patch::Apply(object);
            let error = cluster.call(api.patch(&name, params, &patch)).await.err()?;
            let is_unknown = kind.namespaced && error.is_not_found();
            let is_omitted = error.is_forbidden() && !is_needed(object);
            (!is_unknown && !is_omitted).then(|| (kind.title(&name), error))
        }
    });
    Before {
        refused: join_all(tries).await.into_iter().flatten().collect(),
    }
}

async fn installed(cluster: &Cluster, operator: &Operator, options: &Options) -> Installed {
    let home = crd::OPERATOR_NAMESPACE;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), home);
    let ours = ListParams::default().labels(&format!("{}={}", manifests::NAME_LABEL, operator::NAME));
    let answer = async {
        let asks = options.webhooks && matches!(operator, Operator::Installed(..));
        if asks {
            Some(
                webhook_ready::ask(cluster, &options.namespaces)
                    .await
                    .and_then(|answer| answer),
            )
        } else {
            None
        }
    };
    let resources = try_join_all(kind_info::ALL.map(|kind| async move {
        let cluster = cluster.clone().about(kind);
        let objects = Pager::of(&cluster, None, None).of_known_kinds().all().await?;
        let read = objects.iter().map(|object| CustomResource::read(kind, object));
        Ok::<_, Error>(read.collect::<Vec<_>>())
    }));
    let (lease, pods, resources, answer) = join!(
        cluster.call(leases.get_opt(operator::NAME)),
        list(cluster, Api::namespaced(cluster.client.clone(), home), &ours),
        resources,
        answer,
    );
    Installed {
        lease,
        pods,
        resources: resources.map(|kinds| kinds.into_iter().flatten().collect()),
        answer,
    }
}

async fn list<K>(cluster: &Cluster, api: Api<K>, params: &ListParams) -> Result<Vec<K>>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(cluster.call(api.list(params)).await?.items)
}
