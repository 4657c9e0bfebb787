//! Installs the bundle with OLM's two operators, on a control plane with fake nodes.

pub mod parts;

use std::time::{Duration, Instant};

use testcluster::ControlPlane;
use testcluster::checkout::OPERATOR_USER;

use crate::tools::config;
use parts::{HOME, Parts, definitions, subscription};

const TIMEOUT: Duration = Duration::from_secs(180);

/// OLM, and a catalog with the bundle.
struct Olm {
    cluster: ControlPlane,
    parts: Parts,
}

impl Olm {
    fn start() -> Self {
        let cluster = ControlPlane::builder()
            .controller_manager(&["*"])
            .fake_nodes(1)
            .start()
            .unwrap();
        cluster
            .kubectl(&["apply", "--server-side", "-f", definitions().to_str().unwrap()])
            .unwrap();
        cluster
            .kubectl(&["wait", "--for=condition=Established", "crd", "--all"])
            .unwrap();
        for namespace in ["olm", HOME, "shop", "blog"] {
            cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        }
        let parts = Parts::start(&cluster.kubeconfig(), &config(), None);
        cluster.apply(&parts.catalog()).unwrap();
        Self { cluster, parts }
    }

    /// Creates a Subscription for some namespaces; none means all.
    fn subscribe(&self, namespaces: &[&str]) {
        self.cluster.apply(&subscription(namespaces)).unwrap();
    }

    /// Waits until kubectl prints the expected output.
    #[track_caller]
    fn wait(&mut self, arguments: &[&str], wanted: &str) {
        let begun = Instant::now();
        loop {
            let found = self
                .cluster
                .kubectl(arguments)
                .unwrap_or_else(|error| error.to_string());
            if found.trim() == wanted {
                return;
            }
            let ended = self
                .parts
                .processes
                .iter_mut()
                .any(|process| process.exited().unwrap().is_some());
            if ended || begun.elapsed() > TIMEOUT {
                let state = self
                    .cluster
                    .kubectl(&["get", "csv,subscription,installplan", "-n", HOME, "-o", "yaml"]);
                panic!(
                    "{arguments:?} is not {wanted} but {found}\n{}\n{state:?}",
                    self.parts.logs()
                );
            }
        }
    }

    fn may(&self, verb: &str, resource: &str, namespace: &str, wanted: &str) {
        let asked = ["auth", "can-i", verb, resource, "--as", OPERATOR_USER, "-n", namespace];
        // `kubectl auth can-i` prints `no` with an exit code, and its output is then in the error.
        let output = self
            .cluster
            .kubectl_as(&self.cluster.kubeconfig())
            .output(&asked, "")
            .unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(answer, wanted, "{verb} {resource} in {namespace}");
    }
}

#[test]
#[ignore = "builds OLM for ten minutes: make test-long, make check-packages"]
fn olm_installs_the_operator_for_all_namespaces() {
    let mut olm = Olm::start();
    olm.subscribe(&[]);
    let version = format!("csv/appdeploy-operator.v{}", packages::VERSION);
    olm.wait(
        &["get", &version, "-n", HOME, "-o", "jsonpath={.status.phase}"],
        "Succeeded",
    );
    olm.wait(
        &[
            "get",
            "deployment",
            "-n",
            HOME,
            "-o",
            "jsonpath={.items[*].status.readyReplicas}",
        ],
        "2",
    );
    olm.may("create", "deployments.apps", "shop", "yes");
    olm.may("list", "ingressclasses.networking.k8s.io", HOME, "yes");
    olm.may("get", "secrets", "shop", "no");
    let asked = "jsonpath={.items[*].webhooks[*].name}";
    olm.wait(
        &["get", "validatingwebhookconfigurations", "-o", asked],
        "validate.appdeploy.dev",
    );
    olm.wait(
        &["get", "mutatingwebhookconfigurations", "-o", asked],
        "default.appdeploy.dev",
    );
}

#[test]
#[ignore = "builds OLM for ten minutes: make test-long, make check-packages"]
fn olm_installs_the_operator_for_some_namespaces() {
    let mut olm = Olm::start();
    olm.subscribe(&["shop", "blog"]);
    let version = format!("csv/appdeploy-operator.v{}", packages::VERSION);
    olm.wait(
        &["get", &version, "-n", HOME, "-o", "jsonpath={.status.phase}"],
        "Succeeded",
    );
    olm.may("create", "deployments.apps", "shop", "yes");
    olm.may("create", "deployments.apps", "blog", "yes");
    olm.may("create", "deployments.apps", "default", "no");
    let targets = "jsonpath={.spec.template.metadata.annotations.olm\\.targetNamespaces}";
    olm.wait(
        &["get", "deployment", "appdeploy-operator", "-n", HOME, "-o", targets],
        "blog,shop",
    );
}
