//! Manages the certificates: reads and writes the Secret, serves the certificate, and writes the webhook configurations.
//!
//! Each replica does so, also followers, because each serves webhooks. They share the Secret, and each write names the version that was
//! read: if two replicas write concurrently, one of them fails and uses the certificate of the other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::join_all;
use futures::{FutureExt as _, join};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, PostParams};
use kube::core::{ObjectMeta, Request};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::bundle::{Attempts, Configuration};
use super::certificate::life::{Action, Next, next};
use super::certificate::material::{Data, Material};
use super::certificate::{Lifetimes, SECRET, names};
use super::served::Served;
use super::write_limit::WriteLimit;
use crate::cache::{Equivalent, Item};
use crate::call::{CallError, Caller};
use crate::key::Key;
use crate::reduced::{Parts, Reduce, read};
use crate::stores::Store;
use crate::watch::Watch;

/// The longest time between two checks of the clock, which may be set in between.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Manages the certificates.
pub struct CertificateManager {
    client: Client,
    caller: Caller,
    namespace: String,
    names: [String; 4],
    lifetimes: Lifetimes,
    resync: Duration,
    served: Served,
    secret: Store<Arc<Secret>>,
    configurations: [Configuration; 2],
    changed: Notify,
}

/// The state from one check to the next.
#[derive(Default)]
struct Memory {
    /// The content of the Secret, with its version.
    material: Option<(String, Material)>,
    /// The authorities that were written to the configurations last, and when.
    published: Option<(String, Instant)>,
    attempts: [Attempts; 2],
    write_limit: WriteLimit,
    error: String,
}

impl CertificateManager {
    /// Returns a manager for the Secret in this namespace. `caller` is not fenced: followers serve webhooks, too.
    #[must_use]
    pub fn new(
        client: Client,
        caller: Caller,
        namespace: String,
        lifetimes: Lifetimes,
        resync: Duration,
        served: Served,
    ) -> Self {
        Self {
            client,
            caller,
            names: names(&namespace),
            namespace,
            lifetimes,
            resync,
            served,
            secret: Store::default(),
            configurations: Configuration::both(),
            changed: Notify::new(),
        }
    }

    /// Manages the certificates. Never ends; drop it to end it.
    pub async fn run(self) {
        let watch =
            |configuration| Configuration::watch(configuration, self.client.clone(), self.resync, &self.changed);
        join!(
            self.watch(),
            join_all(self.configurations.iter().map(watch)),
            self.keep()
        );
    }

    async fn watch(&self) {
        let watch = Watch::<Secret> {
            resource: "secrets",
            api: Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::erase::<Secret>(&())),
            scope: Some(&self.namespace),
            config: ListParams::default().fields(&format!("metadata.name={SECRET}")),
            resync: self.resync,
            kind: &self.secret,
            wake: &|_, _| self.changed.notify_one(),
            on_vanish: None,
            definition: None,
        };
        watch.run().await;
    }

    async fn keep(&self) {
        // Before the list it is unknown whether the Secret exists.
        self.secret.health.synced().await;
        let mut memory = Memory::default();
        loop {
            let until = self.check(&mut memory).await;
            let unsettled = self
                .configurations
                .iter()
                .find(|one| one.settled().now_or_never().is_none());
            let settled = async {
                match unsettled {
                    Some(configuration) => configuration.settled().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(until) => {}
                () = settled => {}
            }
        }
    }

    /// Carries out the actions that are due, and returns when to check again if nothing changes before.
    async fn check(&self, memory: &mut Memory) -> Instant {
        let secret = self.secret.cache.get(&self.key());
        let material = self.read(secret.as_deref(), memory);
        if let (Some(served), Some(leaf)) = (&material.served, material.state.leaf)
            && self.served.show(served.clone(), leaf.span.end)
        {
            info!(expires = %leaf.span.end, "serving a new certificate for webhooks");
        }
        let bundle = material.bundle();
        let mut times = vec![Instant::now() + CHECK_INTERVAL];
        if !bundle.is_empty() {
            for (configuration, attempts) in self.configurations.iter().zip(&mut memory.attempts) {
                times.extend(configuration.publish(&self.caller, &bundle, attempts).await);
            }
        }
        let published_at = self.published_at(&bundle, &mut memory.published);
        let is_published = published_at.is_some_and(|at| at <= Instant::now());
        times.extend(published_at.filter(|_| !is_published));
        let now = Timestamp::now();
        match next(&material.state, &self.lifetimes, now, is_published) {
            Next::Wait(until) => {
                // The clock has whole milliseconds: one more is surely late enough.
                let time = Duration::try_from(now.duration_until(until)).unwrap_or_default();
                times.push(Instant::now() + time.min(CHECK_INTERVAL) + Duration::from_millis(1));
            }
            Next::Act(action) => times.push(self.act(action, &material, secret.as_deref(), memory).await),
        }
        times.into_iter().fold(Instant::now() + CHECK_INTERVAL, Instant::min)
    }

    fn read(&self, secret: Option<&Secret>, memory: &mut Memory) -> Material {
        let version = secret
            .and_then(|secret| secret.metadata.resource_version.clone())
            .unwrap_or_default();
        if let Some((known, material)) = &memory.material
            && *known == version
        {
            return material.clone();
        }
        let data = secret.and_then(|secret| secret.data.as_ref());
        let material = Material::read(data.unwrap_or(&Data::new()), &self.names);
        memory.material = Some((version, material.clone()));
        material
    }

    /// Returns when all API servers have these authorities, if they were written to the configurations.
    fn published_at(&self, bundle: &str, published: &mut Option<(String, Instant)>) -> Option<Instant> {
        if !self
            .configurations
            .iter()
            .all(|configuration| configuration.carries(bundle))
        {
            *published = None;
        } else if published.as_ref().is_none_or(|(known, _)| known != bundle) {
            *published = Some((bundle.to_owned(), Instant::now()));
        }
        published.as_ref().map(|(_, since)| *since + self.lifetimes.overlap)
    }

    async fn act(&self, action: Action, material: &Material, secret: Option<&Secret>, memory: &mut Memory) -> Instant {
        if let Some(at) = memory.write_limit.not_before() {
            return at;
        }
        memory.write_limit.step();
        let written = async {
            let data = material.act(action, &self.lifetimes, &self.names, Timestamp::now())?;
            anyhow::Ok(self.write(secret, data).await)
        };
        match written.await.context("the certificate for webhooks can't be created") {
            Ok(Ok(secret)) => {
                self.secret.cache.upsert(reduce(secret));
                memory.error.clear();
                info!(?action, secret = SECRET, "renewed the certificates of webhooks");
                return Instant::now();
            }
            Ok(Err(CallError::Refused(status))) if status.code == 409 => debug!(?action, "another replica was faster"),
            Ok(Err(error)) => report(
                &mut memory.error,
                &format!("the Secret {SECRET} can't be written: {error}"),
            ),
            Err(error) => report(&mut memory.error, &format!("{error:#}")),
        }
        memory.write_limit.not_before().unwrap_or_else(Instant::now)
    }

    async fn write(&self, secret: Option<&Secret>, data: Data) -> Result<Secret, CallError> {
        let collection = Request::new(Secret::url_path(&(), Some(&self.namespace)));
        let mut new = secret.cloned().unwrap_or_else(|| Secret {
            metadata: ObjectMeta {
                name: Some(SECRET.into()),
                namespace: Some(self.namespace.clone()),
                labels: Some([(crd::label::PART_OF.to_owned(), crd::label::PART_OF_VALUE.to_owned())].into()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".into()),
            ..Secret::default()
        });
        new.data.get_or_insert_default().extend(data);
        // A typed object always serializes: its keys are text.
        let body = serde_json::to_vec(&new).unwrap_or_default();
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        match secret {
            None => {
                self.caller
                    .send("create", "secrets", collection.create(&params, body))
                    .await
            }
            Some(_) => {
                self.caller
                    .send("update", "secrets", collection.replace(SECRET, &params, body))
                    .await
            }
        }
    }

    fn key(&self) -> Key {
        Key::new(&self.namespace, SECRET)
    }
}

/// Logs each error once, not for each attempt.
fn report(reported: &mut String, error: &str) {
    if reported == error {
        debug!(error, "webhooks still have no new certificate");
    } else {
        warn!(error, "webhooks have no new certificate");
        error.clone_into(reported);
    }
}

impl Equivalent for Secret {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

impl Reduce for Secret {
    type Value = Arc<Self>;

    fn resource() -> &'static str {
        "secrets"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Arc<Self>>> {
        let data = object.field("data").map(read).transpose().ok()?;
        let type_ = object.field("type").map(read).transpose().ok()?;
        Some(reduce(Secret {
            data,
            type_,
            metadata: ObjectMeta {
                // An update without managers keeps those that the API server has stored.
                managed_fields: None,
                ..object.meta
            },
            ..Secret::default()
        }))
    }
}

fn reduce(secret: Secret) -> Item<Arc<Secret>> {
    let key = Key::of(&secret.metadata);
    Item {
        owners: [key.clone()].into(),
        key,
        version: secret.metadata.resource_version.clone().unwrap_or_default(),
        value: Arc::new(secret),
    }
}
