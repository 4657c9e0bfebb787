//! AppQueues, on a real API server and with real queue servers.

mod credentials;
mod deletion;
mod faults;
mod hung;
mod outside;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use kube::api::Patch;
use serde_json::{Value, json};
use sqs::{AddressPolicy, Client, Clients, Credentials, Endpoint, LimitSettings};
use testcluster::ControlPlane;
use testcluster::queue_servers::{AccessKey, ElasticMq, Moto};

use crate::harness::{CONFIG_MAP, Cluster, Kind, Namespace, QUEUE, Shared, ready, text};

const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets");
const ROLE: Kind = Kind::new("rbac.authorization.k8s.io", "v1", "Role", "roles");
const ROLE_BINDING: Kind = Kind::new("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");

/// The flags of an operator whose queue server is on this machine, and which looks at queues each second.
const FLAGS: [&str; 2] = ["--allow-local-queue-endpoints", "--external-resync-period=1s"];

/// A cluster with an operator, and moto, which checks credentials.
struct World {
    cluster: Arc<Cluster>,
    moto: OnceLock<Moto>,
}

/// A test's namespace.
struct Space {
    namespace: Namespace,
    world: Arc<World>,
}

impl Deref for Space {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

fn space(name: &str) -> Space {
    static SHARED: Shared<World> = Shared::new();
    let world = SHARED.get(|| World {
        cluster: Arc::new(
            Cluster::start(
                ControlPlane::builder()
                    .controller_manager(&["namespace", "garbagecollector"])
                    .apiserver_flag("--enable-admission-plugins=OwnerReferencesPermissionEnforcement"),
            )
            .with_operator(&FLAGS),
        ),
        moto: OnceLock::new(),
    });
    Space {
        namespace: world.cluster.namespace(name),
        world,
    }
}

impl Space {
    fn moto(&self) -> &Moto {
        self.world
            .moto
            .get_or_init(|| Moto::start(Ipv4Addr::LOCALHOST.into()).unwrap())
    }

    /// Creates a Secret with valid credentials, which the operator may read.
    fn credentials(&self) {
        let key = self.moto().key();
        self.secret(key);
        self.grant();
    }

    fn secret(&self, key: &AccessKey) {
        let data = json!({"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret});
        self.create(SECRET, json!({"metadata": {"name": "sqs"}, "stringData": data}));
    }

    fn grant(&self) {
        let rights = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["sqs"], "verbs": ["get"]});
        self.create(ROLE, json!({"metadata": {"name": "sqs"}, "rules": [rights]}));
        let subject = json!({"kind": "ServiceAccount", "name": "appdeploy-operator", "namespace": "appdeploy-system"});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sqs"});
        self.create(
            ROLE_BINDING,
            json!({"metadata": {"name": "sqs"}, "roleRef": role, "subjects": [subject]}),
        );
    }

    /// Creates an AppQueue at moto with these fields in addition.
    fn queue(&self, name: &str, sqs: &Value, spec: &Value) -> Value {
        self.create(
            QUEUE,
            json!({"metadata": {"name": name}, "spec": queue_spec(&self.moto().url(), sqs, spec)}),
        )
    }

    fn ready_queue(&self, name: &str, sqs: &Value, spec: &Value) -> Value {
        self.queue(name, sqs, spec);
        self.until_queue_ready(name)
    }

    fn until_queue_ready(&self, name: &str) -> Value {
        self.until(QUEUE, name, "the queue is ready", |queue| ready(queue).0 == "True")
    }

    fn until_reason(&self, name: &str, reason: &str) -> Value {
        self.until(QUEUE, name, reason, |queue| ready(queue).1 == reason)
    }

    fn set_queue(&self, name: &str, spec: &Value) {
        self.patch(QUEUE, name, Patch::Merge(json!({"spec": spec})));
    }

    /// Returns a client of moto.
    fn client(&self) -> Client {
        client(&self.moto().url(), self.moto().key())
    }

    /// Returns the name of a queue outside of the cluster.
    fn outside(&self, name: &str) -> String {
        format!("{}_{name}", self.name)
    }

    fn attributes(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let client = self.client();
        self.cluster.block_on(async {
            let url = client.queue_url(&self.outside(name)).await.ok()?;
            client.attributes(&url).await.ok()
        })
    }
}

fn queue_spec(endpoint: &str, sqs: &Value, spec: &Value) -> Value {
    let mut all =
        json!({"sqs": {"region": "us-east-1", "endpoint": endpoint}, "credentials": {"secretRef": {"name": "sqs"}}});
    let merge = |into: &mut Value, from: &Value| {
        for (field, value) in from.as_object().unwrap() {
            into[field] = value.clone();
        }
    };
    merge(&mut all["sqs"], sqs);
    merge(&mut all, spec);
    all
}

fn client(url: &str, key: &AccessKey) -> Client {
    let credentials = Credentials::new(key.id.clone(), key.secret.clone(), key.token.clone());
    let endpoint = Endpoint::parse(url, "us-east-1").unwrap();
    Clients::new(AddressPolicy::AllowLocal, LimitSettings::default()).client(endpoint, Arc::new(credentials))
}

#[test]
fn queue_is_created_as_its_spec_says_and_pods_can_find_it() {
    let space = space("create");
    space.credentials();
    let sqs = json!({"visibilityTimeoutSeconds": 45, "delaySeconds": 3, "tags": {"team": "shop"}});
    let queue = space.ready_queue("orders", &sqs, &json!({}));
    let attributes = space.attributes("orders").unwrap();
    assert_eq!(
        (
            attributes["VisibilityTimeout"].as_str(),
            attributes["DelaySeconds"].as_str()
        ),
        ("45", "3")
    );
    let client = space.client();
    let tags = space
        .cluster
        .block_on(client.tags(text(&queue, "/status/url")))
        .unwrap();
    let expected = [("appdeploy.dev/uid", text(&queue, "/metadata/uid")), ("team", "shop")];
    assert_eq!(
        tags,
        expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    );
    assert_eq!(queue["metadata"]["finalizers"], json!(["appdeploy.dev/queue"]));
    assert_eq!(queue["status"]["approximateDepth"], 0);
    let config_map = space.get(CONFIG_MAP, "orders-queue");
    let expected = json!({"url": queue["status"]["url"], "arn": queue["status"]["arn"], "region": "us-east-1",
        "endpoint": space.moto().url()});
    assert_eq!(config_map["data"], expected);
}

#[test]
fn change_of_the_spec_changes_the_queue() {
    let space = space("change");
    space.credentials();
    space.ready_queue("orders", &json!({"visibilityTimeoutSeconds": 45}), &json!({}));
    space.set_queue("orders", &json!({"sqs": {"visibilityTimeoutSeconds": 50}}));
    space.until(QUEUE, "orders", "the spec is observed", |queue| {
        queue["status"]["observedGeneration"] == 2
    });
    space.until_queue_ready("orders");
    assert_eq!(space.attributes("orders").unwrap()["VisibilityTimeout"], "50");
}

#[test]
fn queue_waits_for_its_dead_letter_queue() {
    let space = space("dead-letter");
    space.credentials();
    let dead_letter = json!({"deadLetter": {"queueRef": {"name": "failed"}, "maxReceiveCount": 5}});
    space.queue("orders", &dead_letter, &json!({}));
    space.until_reason("orders", "DeadLetterMissing");
    assert_eq!(space.attributes("orders"), None);
    let failed = space.ready_queue("failed", &json!({}), &json!({}));
    space.until_queue_ready("orders");
    let policy: Value = serde_json::from_str(&space.attributes("orders").unwrap()["RedrivePolicy"]).unwrap();
    assert_eq!(policy["deadLetterTargetArn"], failed["status"]["arn"]);
}

/// ElasticMQ keeps the rules of FIFO queues that moto does not know.
#[test]
fn fifo_queue_is_created() {
    let space = space("fifo");
    space.secret(&AccessKey {
        id: "any".into(),
        secret: "any".into(),
        token: None,
    });
    space.grant();
    let server = ElasticMq::start(Ipv4Addr::LOCALHOST.into()).unwrap();
    let spec = queue_spec(
        &server.url(),
        &json!({"type": "FIFO", "messageRetentionSeconds": 600}),
        &json!({}),
    );
    space.create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}));
    let queue = space.until_queue_ready("orders");
    assert!(text(&queue, "/status/url").ends_with("/fifo_orders.fifo"), "{queue}");
}

#[test]
fn steady_queue_costs_no_request_to_the_api_server() {
    let space = space("steady-queue");
    space.credentials();
    space.ready_queue(
        "orders",
        &json!({"visibilityTimeoutSeconds": 45, "tags": {"team": "shop"}}),
        &json!({}),
    );
    let client = space.client();
    let url = space
        .cluster
        .block_on(client.queue_url(&space.outside("orders")))
        .unwrap();
    let mark = space.mark();
    // A repair shows that the queue was read several times since.
    for timeout in ["46", "47"] {
        let attributes = [("DelaySeconds".to_owned(), timeout.to_owned())];
        space
            .cluster
            .block_on(client.set_attributes(&url, &attributes.into()))
            .unwrap();
    }
    space.ready_queue("marker", &json!({}), &json!({}));
    let about = |request: &testcluster::audit::Request| request.name.starts_with("orders");
    let asked = space.asked_since(mark).that(about);
    assert_eq!(asked.tally(), [].into());
}

#[test]
fn changed_config_map_of_a_queue_is_restored() {
    let space = space("output");
    space.credentials();
    space.ready_queue("orders", &json!({}), &json!({}));
    let change = json!({"data": {"region": "changed"}});
    space.patch(CONFIG_MAP, "orders-queue", Patch::Merge(change));
    space.until(CONFIG_MAP, "orders-queue", "it is restored", |output| {
        text(output, "/data/region") == "us-east-1"
    });
}

#[test]
fn config_map_of_another_owner_is_not_changed() {
    let space = space("taken");
    space.credentials();
    let theirs = json!({"metadata": {"name": "orders-queue"}, "data": {"url": "theirs"}});
    space.create(CONFIG_MAP, theirs);
    let before = space.bytes(CONFIG_MAP, "orders-queue");
    space.queue("orders", &json!({}), &json!({}));
    let queue = space.until_reason("orders", "NameConflict");
    let message = text(&queue, "/status/cause/message");
    assert_eq!(message, "ConfigMap orders-queue exists and is not managed by appdeploy");
    assert_eq!(space.bytes(CONFIG_MAP, "orders-queue"), before);
}
