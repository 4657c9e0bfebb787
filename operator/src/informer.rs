//! What a controller watches: a store, the watch that feeds it, and the objects that an event concerns.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kube::api::{ListParams, PostParams};
use kube::discovery::ApiResource;
use kube::{Api, Client};
use model::ChildKind;
use tokio::time::{sleep, timeout};
use tracing::info;

use crate::client::DEADLINE;
use crate::key::Key;
use crate::queue::{Priority, Queue, Reason};
use crate::reduced::{Reduce, Reduced};
use crate::stores::children::reading;
use crate::stores::definition::Definition;
use crate::stores::{AnyStore, Store};
use crate::watch::{Health, Watch};

/// Whether the operator's readiness depends on a watch. Reconciles begin in any case as soon as they can. A new leader lists again what
/// the readiness depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It does.
    Always,
    /// It does, unless the server does not know the kind: then there is nothing to manage. An installation is older than the kind
    /// until its CRDs are applied again.
    IfServed,
    /// It does not. The watch only improves the status.
    Helps,
}

/// Adds the owners that an event concerns to a queue.
pub type Wake = Arc<dyn Fn(Vec<Key>, Reason) + Send + Sync>;

/// Receives objects that a watch no longer reports.
pub type OnVanish<T> = Arc<dyn Fn(Key, T) + Send + Sync>;

/// Returns a function that adds owners to this queue.
#[must_use]
pub fn waking(queue: &Arc<Queue<Key>>) -> Wake {
    let queue = queue.clone();
    Arc::new(move |owners, reason| owners.into_iter().for_each(|owner| queue.add(owner, reason)))
}

/// Returns a function that adds objects that have changed themselves, before those that only a related change concerns.
#[must_use]
pub fn preferring(wake: Wake) -> Wake {
    Arc::new(move |objects, reason| {
        let priority = match reason.priority {
            Priority::Related => Priority::Object,
            other => other,
        };
        wake(objects, Reason { priority, ..reason });
    })
}

/// The objects of a kind that an informer watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// All.
    All,
    /// Those that a label selector matches.
    Labels(String),
    /// The one of this name.
    Name(String),
}

/// What an informer watches.
pub struct Source<R: Reduce> {
    /// Its name in metrics, logs and probes: the plural name of the kind.
    pub resource: &'static str,
    /// The kind.
    pub api: ApiResource,
    /// Whether the kind has namespaces.
    pub is_namespaced: bool,
    /// The objects that are watched.
    pub select: Select,
    /// Whether readiness depends on it.
    pub need: Need,
    /// The store that it feeds.
    pub store: Arc<Store<R::Value>>,
    /// Receives the owners of objects that have changed.
    pub wake: Wake,
    /// Receives objects that have vanished, before their owners are woken ([`Watch::on_vanish`]).
    pub on_vanish: Option<OnVanish<R::Value>>,
}

/// Where and how often an informer watches.
#[derive(Clone)]
pub struct Scopes {
    /// Sends the lists and watches.
    pub client: Client,
    /// The namespaces that are managed; `None` stands for all.
    pub scopes: Vec<Option<String>>,
    /// The time between two lists.
    pub resync: Duration,
}

/// A store and the watch that feeds it, whatever its kind.
pub struct Informer {
    resource: &'static str,
    api: ApiResource,
    is_namespaced: bool,
    /// The name of the only object that is watched.
    name: Option<String>,
    need: Need,
    store: Arc<dyn AnyStore>,
    /// The kind of child that it reads.
    child: Option<&'static ChildKind>,
    /// The definition of its kind, if not every cluster has it.
    definition: Option<Arc<Definition>>,
    is_for_new_objects: bool,
    watch: Box<Begin>,
}

/// Begins a watch in a namespace, or in all.
type Begin = dyn Fn(&Scopes, Option<String>, Option<Arc<Definition>>) -> BoxFuture<'static, ()> + Send + Sync;

impl<R: Reduce> From<Source<R>> for Informer {
    fn from(source: Source<R>) -> Self {
        let Source {
            resource,
            api,
            is_namespaced,
            select,
            need,
            store,
            wake,
            on_vanish,
        } = source;
        let name = match &select {
            Select::Name(name) => Some(name.clone()),
            Select::All | Select::Labels(_) => None,
        };
        let config = select.params();
        let (kind, cache) = (api.clone(), store.clone());
        let watch = move |scopes: &Scopes, scope: Option<String>, definition: Option<Arc<Definition>>| {
            let (client, resync) = (scopes.client.clone(), scopes.resync);
            let api: Api<Reduced<R>> = match &scope {
                Some(namespace) => Api::namespaced_with(client, namespace, &kind),
                None => Api::all_with(client, &kind),
            };
            let (config, cache, wake, on_vanish) = (config.clone(), cache.clone(), wake.clone(), on_vanish.clone());
            let watch = async move {
                let watch = Watch::<R> {
                    resource,
                    api,
                    scope: scope.as_deref(),
                    config,
                    resync,
                    kind: &cache,
                    wake: &*wake,
                    on_vanish: on_vanish
                        .as_deref()
                        .map(|on_vanish| on_vanish as &(dyn Fn(Key, R::Value) + Sync)),
                    definition: definition.as_deref(),
                };
                watch.run().await;
            };
            watch.boxed()
        };
        Self {
            resource,
            api,
            is_namespaced,
            name,
            need,
            store,
            child: None,
            definition: None,
            is_for_new_objects: false,
            watch: Box::new(watch),
        }
    }
}

impl Select {
    fn params(&self) -> ListParams {
        let params = ListParams::default();
        match self {
            Self::All => params,
            Self::Labels(selector) => params.labels(selector),
            Self::Name(name) => params.fields(&format!("metadata.name={name}")),
        }
    }
}

impl Informer {
    /// Reads the objects as children of a kind. An optional kind has a definition.
    #[must_use]
    pub fn of_children(self, kind: &'static ChildKind, definition: Option<Arc<Definition>>) -> Self {
        Self {
            child: Some(kind),
            definition,
            ..self
        }
    }

    /// New objects of its controller can be reconciled as soon as this informer, and others like it, have listed.
    #[must_use]
    pub fn for_new_objects(self) -> Self {
        Self {
            is_for_new_objects: true,
            ..self
        }
    }

    /// Whether new objects wait for it.
    #[must_use]
    pub const fn is_for_new_objects(&self) -> bool {
        self.is_for_new_objects
    }

    /// Returns its name.
    #[must_use]
    pub const fn resource(&self) -> &'static str {
        self.resource
    }

    /// Returns whether readiness depends on it.
    #[must_use]
    pub const fn need(&self) -> Need {
        self.need
    }

    /// Whether it watches an optional kind of children that the server does not know.
    #[must_use]
    pub fn is_missing_option(&self) -> bool {
        self.definition.is_some() && self.health().is_not_served()
    }

    /// Returns how often a list or a watch has failed. An optional kind that the server does not know is not counted.
    #[must_use]
    pub fn errors(&self) -> u64 {
        if self.option().is_some() {
            self.health().errors_while_served()
        } else {
            self.health().errors()
        }
    }

    /// Returns whether the server knows an optional kind of children, and how often it stopped to. `None` for other kinds.
    #[must_use]
    pub fn option(&self) -> Option<(bool, u64)> {
        self.definition
            .is_some()
            .then(|| (!self.health().is_not_served(), self.health().removals()))
    }

    /// Returns the store that it feeds.
    #[must_use]
    pub fn store(&self) -> &dyn AnyStore {
        &*self.store
    }

    /// Returns the health of its watch.
    #[must_use]
    pub fn health(&self) -> &Health {
        self.store.health()
    }

    /// Announces the watches that feed the store, before the first begins.
    pub fn expect(&self, scopes: &Scopes) {
        if self.is_namespaced {
            let scopes: Vec<Option<&str>> = scopes.scopes.iter().map(Option::as_deref).collect();
            self.store.health().expect(&scopes);
        }
    }

    /// Watches the kind. Never ends; drop it to end it.
    pub async fn run(&self, scopes: &Scopes) {
        if self.is_namespaced {
            let watches = scopes.scopes.iter().map(|scope| self.watch(scopes, scope.clone()));
            join_all(watches).await;
            return;
        }
        // An operator with rights in some namespaces often has none to list cluster-scoped objects. Then it does not try.
        while scopes.scopes != [None] && !self.may_list(&scopes.client).await {
            let resource = self.resource;
            info!(resource, "no right to list; continuing without");
            self.health().denied(&format!("no right to list {resource}"));
            sleep(scopes.resync).await;
        }
        self.watch(scopes, None).await;
    }

    async fn watch(&self, scopes: &Scopes, scope: Option<String>) {
        let watch = (self.watch)(scopes, scope, self.definition.clone());
        match self.child {
            Some(kind) => reading(kind, watch).await,
            None => watch.await,
        }
    }

    /// Reviews the operator's own rights, which everyone may. If there is no answer, listing will show.
    async fn may_list(&self, client: &Client) -> bool {
        let mut review = SelfSubjectAccessReview::default();
        review.spec.resource_attributes = Some(ResourceAttributes {
            group: Some(self.api.group.clone()),
            resource: Some(self.api.plural.clone()),
            name: self.name.clone(),
            verb: Some("list".into()),
            ..ResourceAttributes::default()
        });
        let api = Api::<SelfSubjectAccessReview>::all(client.clone());
        let answer = timeout(DEADLINE, api.create(&PostParams::default(), &review)).await;
        let status = answer.ok().and_then(Result::ok).and_then(|review| review.status);
        status.is_none_or(|status| status.allowed)
    }
}
