//! Queues outside the cluster: a real queue server behind a proxy, and what is in it at the end of a run.

mod calls;
pub(crate) mod scenario;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fault_proxy::QueueProxy;
use serde_json::{Value, json};
use sqs::{AddressPolicy, Client, Clients, Credentials, Endpoint, Error, LimitSettings};
use testcluster::checkout::OPERATOR_USER;
use testcluster::queue_servers::AccessKey;

use super::cluster::{Cluster, eventually};
use super::history::ObjectVersion;
use super::kind::{QUEUE, ROLE, ROLE_BINDING, SECRET};
use super::queue_servers::Running;
use super::scenario::UserAction;
use super::service::{Outside, Server};
use snapshot::{Queue, changed, differences, queues, untrue_status};

/// The name of a third-party queue, which an AppQueue also has.
const FOREIGN: &str = "taken";
/// The Secret with the credentials, and its Role.
const CREDENTIALS: &str = "sqs";
const REGION: &str = "us-east-1";
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The queue service of a run.
pub(super) struct Queues<'a> {
    cluster: &'a Cluster,
    namespace: String,
    server: Running,
    /// The proxy between the operator and the server.
    pub(super) proxy: QueueProxy,
    /// A client of the server, with credentials that are never revoked.
    client: Client,
    is_revoked: AtomicBool,
    /// The third-party queue at the start.
    foreign: Queue,
}

impl<'a> Queues<'a> {
    /// Starts a proxy, and creates the credentials in the namespace and a third-party queue outside.
    pub(super) fn start(cluster: &'a Cluster, namespace: &str, server: Server) -> Result<Self> {
        let server = cluster.queue_servers.get(server)?;
        let any = AccessKey {
            id: "any".to_owned(),
            secret: "any".to_owned(),
            token: None,
        };
        let (address, key, own) = match &server {
            Running::ElasticMq(server) => (server.address(), any.clone(), any),
            Running::Moto(moto) => (moto.address(), moto.key().clone(), moto.temporary_key()?),
        };
        let mut queues = Self {
            cluster,
            namespace: namespace.to_owned(),
            proxy: QueueProxy::before(address)?,
            client: client(&format!("http://{address}"), &own)?,
            server,
            is_revoked: AtomicBool::new(false),
            foreign: Queue::default(),
        };
        queues.grant(&key)?;
        let foreign = queues.full_name(FOREIGN);
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let (attributes, tags) = (map("VisibilityTimeout", "33"), map("team", "other"));
        queues
            .block_on(queues.client.create_queue(&foreign, &attributes, &tags))
            .context("failed to create a queue")?;
        let found = queues.snapshot()?.remove(&foreign);
        queues.foreign = found.context("the new queue does not exist")?;
        Ok(queues)
    }

    /// Creates the Secret, and lets the operator read it.
    fn grant(&self, key: &AccessKey) -> Result<()> {
        let metadata = json!({"name": CREDENTIALS});
        let data = json!({"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret});
        let right =
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [CREDENTIALS], "verbs": ["get"]});
        let subject = json!({"kind": "User", "name": OPERATOR_USER, "apiGroup": "rbac.authorization.k8s.io"});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CREDENTIALS});
        for (kind, object) in [
            (SECRET, json!({"metadata": metadata, "stringData": data})),
            (ROLE, json!({"metadata": metadata, "rules": [right]})),
            (
                ROLE_BINDING,
                json!({"metadata": metadata, "roleRef": role, "subjects": [subject]}),
            ),
        ] {
            self.cluster
                .perform(&self.namespace, &UserAction::Create(kind, object))?;
        }
        let secret = format!("secrets/{CREDENTIALS}");
        let asked = [
            "auth",
            "can-i",
            "get",
            &secret,
            "-n",
            &self.namespace,
            "--as",
            OPERATOR_USER,
        ];
        eventually(&self.cluster.control_plane, &asked)
    }

    /// Returns an AppQueue with the address and the credentials of the service.
    pub(super) fn with_service(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["spec"]["sqs"]["region"] = json!(REGION);
        object["spec"]["sqs"]["endpoint"] = json!(self.proxy.url());
        object["spec"]["credentials"] = json!({"secretRef": {"name": CREDENTIALS}});
        object
    }

    /// Performs an action.
    pub(super) fn perform(&self, action: Outside) -> Result<()> {
        match (action, &self.server) {
            (Outside::DeleteQueue(name), _) => {
                let name = self.full_name(name);
                let url = self.block_on(self.client.queue_url(&name))?;
                Ok(self.block_on(self.client.delete(&url))?)
            }
            (Outside::Revoke, Running::Moto(moto)) => {
                self.is_revoked.store(true, Ordering::Relaxed);
                moto.deny()
            }
            (Outside::Restore, Running::Moto(moto)) => {
                self.is_revoked.store(false, Ordering::Relaxed);
                moto.allow()
            }
            (Outside::Revoke | Outside::Restore, Running::ElasticMq(_)) => {
                anyhow::bail!("ElasticMQ accepts any credentials")
            }
        }
    }

    /// Waits until the queues are those of the AppQueues in the history, and the status says so; returns whether they are.
    pub(super) fn until_agreed(&self, timeout: Duration, history: impl Fn() -> Vec<ObjectVersion>) -> bool {
        let started = Instant::now();
        while started.elapsed() < timeout {
            if self
                .snapshot()
                .is_ok_and(|found| self.differences(&history(), &found).is_empty())
            {
                return true;
            }
            thread::sleep(POLL_INTERVAL);
        }
        false
    }

    fn differences(&self, history: &[ObjectVersion], found: &BTreeMap<String, Queue>) -> Vec<String> {
        let mut all = differences(history, &self.namespace, found);
        if !self.is_revoked.load(Ordering::Relaxed) {
            all.extend(untrue_status(history, &self.namespace));
        }
        all
    }

    /// Waits for two resyncs, and returns the calls other than their reads.
    pub(super) fn calls_while_steady(&self, history: &[ObjectVersion]) -> Vec<String> {
        calls::while_steady(&self.proxy, history)
    }

    /// Returns the problems at the end of a run, when nothing changes any more.
    pub(super) fn problems(&self, history: &[ObjectVersion]) -> Vec<String> {
        let found = match self.snapshot() {
            Ok(found) => found,
            Err(error) => return vec![format!("the queue server can't be read: {error:#}")],
        };
        let mut problems = self.differences(history, &found);
        problems.extend(changed(&self.foreign, found.get(&self.full_name(FOREIGN))));
        problems.extend(calls::strange(&self.proxy.records(), &self.namespace, history));
        problems
    }

    /// Deletes the queues of the run, and the finalizers, which no operator removes any more.
    pub(super) fn end(self, history: &[ObjectVersion]) -> Result<()> {
        for seen in queues(history) {
            let patch = json!({"metadata": {"finalizers": null}}).to_string();
            // It may have been deleted by now.
            let _ = self.cluster.control_plane.kubectl(&[
                "patch",
                QUEUE.plural(),
                seen.name(),
                "-n",
                &self.namespace,
                "--type=merge",
                "-p",
                &patch,
            ]);
        }
        for url in self.block_on(self.client.list(&self.full_name("")))? {
            self.block_on(self.client.delete(&url))?;
        }
        if self.is_revoked.load(Ordering::Relaxed) {
            self.perform(Outside::Restore)?;
        }
        self.cluster.queue_servers.free(self.server);
        Ok(())
    }

    /// Reads the queues of the run from the server.
    fn snapshot(&self) -> Result<BTreeMap<String, Queue>> {
        let read = async {
            let mut queues = BTreeMap::new();
            for url in self.client.list(&self.full_name("")).await? {
                let name = url.rsplit('/').next().unwrap_or_default().to_owned();
                let attributes = self.client.attributes(&url).await;
                match (attributes, self.client.tags(&url).await) {
                    (Ok(attributes), Ok(tags)) => {
                        queues.insert(name, Queue { attributes, tags }.without_counts());
                    }
                    // It was deleted in the meantime.
                    (Err(Error::NoSuchQueue), _) | (_, Err(Error::NoSuchQueue)) => {}
                    (Err(error), _) | (_, Err(error)) => return Err(error),
                }
            }
            Ok(queues)
        };
        Ok(self.block_on(read)?)
    }

    /// Returns the name of a queue outside.
    fn full_name(&self, name: &str) -> String {
        format!("{}_{name}", self.namespace)
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.cluster.runtime.block_on(future)
    }
}

/// Returns a client with limits that no run reaches.
fn client(url: &str, key: &AccessKey) -> Result<Client> {
    let limits = LimitSettings {
        rate: 1000,
        burst: 1000,
        timeout: Duration::from_secs(30),
        ..LimitSettings::default()
    };
    let credentials = Credentials::new(key.id.clone(), key.secret.clone(), key.token.clone());
    let endpoint = Endpoint::parse(url, REGION)?;
    Ok(Clients::new(AddressPolicy::AllowLocal, limits).client(endpoint, Arc::new(credentials)))
}
