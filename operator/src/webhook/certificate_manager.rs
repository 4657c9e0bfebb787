//! Does what is to be done with the certificates: reads and writes the Secret, shows the certificate, tells API servers.
//!
//! Each operator does it, whether it leads or not, because each serves webhooks. They share the Secret, and whoever writes
//! it says which version it has read: if two would do the same, one is refused and takes what the other has made.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::join_all;
use futures::{FutureExt as _, join};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::core::{ObjectMeta, Request};
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::bundle::{Attempts, Configuration};
use super::certificate::life::{Action, Next, next};
use super::certificate::material::{Data, Material};
use super::certificate::{SECRET, Terms, names};
use super::served::Served;
use super::write_limit::WriteLimit;
use crate::cache::Item;
use crate::call::{CallError, Caller};
use crate::key::Key;
use crate::reduced::{Parts, Reduce, read};
use crate::stores::Store;
use crate::watch::Watch;

/// The longest time without a look at the clock, which may be set while nothing happens.
const GLANCE: Duration = Duration::from_secs(3600);

/// Keeps the certificates.
pub struct CertificateManager {
    client: Client,
    caller: Caller,
    namespace: String,
    names: [String; 4],
    terms: Terms,
    resync: Duration,
    served: Served,
    secret: Store<Arc<Secret>>,
    configurations: [Configuration; 2],
    changed: Notify,
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Memory {
    /// What was read of the Secret, with its version.
    material: Option<(String, Material)>,
    /// The authorities that API servers were told last, and when.
    told: Option<(String, Instant)>,
    attempts: [Attempts; 2],
    write_limit: WriteLimit,
    error: String,
}

impl CertificateManager {
    /// Makes one for the Secret in this namespace. `caller` is not fenced: followers serve webhooks, too.
    #[must_use]
    pub fn new(
        client: Client,
        caller: Caller,
        namespace: String,
        terms: Terms,
        resync: Duration,
        served: Served,
    ) -> Self {
        Self {
            client,
            caller,
            names: names(&namespace),
            namespace,
            terms,
            resync,
            served,
            secret: Store::default(),
            configurations: Configuration::both(),
            changed: Notify::new(),
        }
    }

    /// Keeps them for ever; drop it to end it.
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
            config: watcher::Config::default().fields(&format!("metadata.name={SECRET}")),
            resync: self.resync,
            kind: &self.secret,
            wake: &|_, _| self.changed.notify_one(),
            on_vanish: None,
        };
        watch.run().await;
    }

    async fn keep(&self) {
        // Before, nobody knows whether there is one.
        self.secret.health.synced().await;
        let mut memory = Memory::default();
        loop {
            let until = self.look(&mut memory).await;
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

    /// Does what is to be done now, and returns when to look again if nothing happens before.
    async fn look(&self, memory: &mut Memory) -> Instant {
        let secret = self.secret.cache.get(&self.key());
        let material = self.read(secret.as_deref(), memory);
        if let (Some(served), Some(leaf)) = (&material.served, material.facts.leaf)
            && self.served.show(served.clone(), leaf.span.end)
        {
            info!(expires = %leaf.span.end, "took a certificate for webhooks");
        }
        let bundle = material.bundle();
        let mut times = vec![Instant::now() + GLANCE];
        if !bundle.is_empty() {
            for (configuration, attempts) in self.configurations.iter().zip(&mut memory.attempts) {
                times.extend(configuration.publish(&self.caller, &bundle, attempts).await);
            }
        }
        let told_at = self.told(&bundle, &mut memory.told);
        let told = told_at.is_some_and(|at| at <= Instant::now());
        times.extend(told_at.filter(|_| !told));
        let now = Timestamp::now();
        match next(&material.facts, &self.terms, now, told) {
            Next::Wait(until) => {
                // The clock shows whole moments: a millisecond later it is surely so late.
                let time = Duration::try_from(now.duration_until(until)).unwrap_or_default();
                times.push(Instant::now() + time.min(GLANCE) + Duration::from_millis(1));
            }
            Next::Act(action) => times.push(self.act(action, &material, secret.as_deref(), memory).await),
        }
        times.into_iter().fold(Instant::now() + GLANCE, Instant::min)
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

    /// Returns when API servers have known these authorities for as long as they need, if they have been told.
    fn told(&self, bundle: &str, told: &mut Option<(String, Instant)>) -> Option<Instant> {
        if !self
            .configurations
            .iter()
            .all(|configuration| configuration.carries(bundle))
        {
            *told = None;
        } else if told.as_ref().is_none_or(|(known, _)| known != bundle) {
            *told = Some((bundle.to_owned(), Instant::now()));
        }
        told.as_ref().map(|(_, since)| *since + self.terms.overlap)
    }

    async fn act(&self, action: Action, material: &Material, secret: Option<&Secret>, memory: &mut Memory) -> Instant {
        if let Some(at) = memory.write_limit.not_before() {
            return at;
        }
        memory.write_limit.step();
        let written = async {
            let data = material.act(action, &self.terms, &self.names, Timestamp::now())?;
            anyhow::Ok(self.write(secret, data).await)
        };
        match written.await.context("the certificate for webhooks can't be made") {
            Ok(Ok(secret)) => {
                self.secret.cache.upsert(reduce(secret));
                memory.error.clear();
                info!(?action, secret = SECRET, "renewed the certificates of webhooks");
                return Instant::now();
            }
            Ok(Err(CallError::Refused(status))) if status.code == 409 => debug!(?action, "another operator was faster"),
            Ok(Err(error)) => tell(
                &mut memory.error,
                &format!("the Secret {SECRET} can't be written: {error}"),
            ),
            Err(error) => tell(&mut memory.error, &format!("{error:#}")),
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
        // A typed object always serialises: its keys are text.
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

/// Once for each error, not once for each try.
fn tell(told: &mut String, error: &str) {
    if told == error {
        debug!(error, "webhooks still have no certificate of their own making");
    } else {
        warn!(error, "webhooks have no new certificate");
        error.clone_into(told);
    }
}

impl Reduce for Secret {
    type Value = Arc<Self>;

    fn resource() -> &'static str {
        "secrets"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Arc<Self>>> {
        Some(reduce(read(object.whole).ok()?))
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
