//! The cluster of the tests, its initial state, and a namespace for each test.

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use testcluster::checkout::cluster::{ingress, operator_image, pack_operator, testcluster};
use testcluster::checkout::{Checkout, Cluster, Shell};
use testcluster::node::Node;

use crate::story::INGRESS;

/// The state of the cluster before the tests.
pub struct InitialState {
    checkout: Checkout,
    cluster: bool,
    operator: Option<String>,
    definitions: bool,
}

impl InitialState {
    /// Reads whether there is a cluster.
    pub fn read() -> Result<Self> {
        let checkout = Checkout::find()?;
        Ok(Self {
            cluster: Cluster::is_up(&checkout),
            checkout,
            operator: None,
            definitions: false,
        })
    }

    /// Restores this state.
    pub fn restore(&self, environment: &Environment) -> Result<()> {
        if !self.cluster {
            return testcluster(&self.checkout, &["down"]);
        }
        match &self.operator {
            Some(image) => environment
                .shell
                .run(&format!("kubectl appdeploy install --image {image}")),
            None if self.definitions => environment.shell.run("kubectl appdeploy uninstall"),
            None => environment.shell.run("kubectl appdeploy uninstall --delete-crds --yes"),
        }
        .map(drop)
    }
}

/// The cluster with the operator.
pub struct Environment {
    /// This checkout.
    pub checkout: Checkout,
    /// A shell like a user's.
    pub shell: Shell,
    /// The operator's image.
    pub image: String,
    cluster: Cluster,
}

/// Returns whether this is `make test-long`.
fn long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}

impl Environment {
    /// Starts the cluster and installs the operator.
    pub fn start(image: String, initial: &mut InitialState) -> Result<Self> {
        let checkout = Checkout::find()?;
        let cluster = Cluster::up(&checkout)?;
        let shell = Shell::new(&checkout, cluster)?;
        ensure!(
            cluster != Cluster::Real || ingress(&checkout) == INGRESS,
            "{INGRESS} is in use by another program: the guides' commands expect the ingress controller there"
        );
        let environment = Self {
            checkout,
            shell,
            image,
            cluster,
        };
        initial.operator = operator_image(&environment.shell);
        initial.definitions = environment
            .shell
            .run("kubectl get crd appdeploys.appdeploy.dev --output name")
            .is_ok();
        if cluster == Cluster::Real {
            // The image of the Dockerfile is released, and takes minutes to build.
            if long() {
                testcluster(&environment.checkout, &["build-image", &environment.image])?;
            } else if initial.operator.as_ref() != Some(&environment.image) {
                pack_operator(&environment.checkout, &environment.image)?;
            }
            environment.install()?;
        }
        environment.delete_leftovers()?;
        Ok(environment)
    }

    /// Deletes the namespaces that an interrupted run has left, with the finalizer that a test adds.
    fn delete_leftovers(&self) -> Result<()> {
        let delete = r#"
for namespace in $(kubectl get namespace --selector e2e=test --output jsonpath='{.items[*].metadata.name}'); do
  kubectl get deployment held --namespace "$namespace" --ignore-not-found --output name |
    xargs --no-run-if-empty kubectl patch --namespace "$namespace" --type merge --patch '{"metadata":{"finalizers":null}}'
  kubectl delete namespace "$namespace" --wait=false
done"#;
        self.shell.run(delete).map(drop)
    }

    /// Returns why a test is skipped: on fake nodes only the demo has a result, and OLM takes long to build.
    pub fn skip_reason(&self, test: &str) -> Option<&'static str> {
        if test == "olm" && !long() {
            return Some("it builds OLM: make test-long");
        }
        (self.cluster == Cluster::Fake && test != "demo").then_some("it needs a real node, which needs root on Linux")
    }

    /// Returns the real node, whose network has the addresses of pods.
    pub fn node(&self) -> Result<Node> {
        Node::running(&self.checkout.state()).context("the node does not run")
    }

    /// Returns whether there is a real node, so that pages can be requested.
    pub fn is_real(&self) -> bool {
        self.cluster == Cluster::Real
    }

    /// Installs the operator, and waits until it is ready.
    pub fn install(&self) -> Result<()> {
        self.shell
            .run(&format!("kubectl appdeploy install --image {}", self.image))
            .map(drop)
    }

    /// Waits until the namespaces of all tests are deleted.
    pub fn until_clean(&self) -> Result<()> {
        let deleted = "kubectl get namespace --selector e2e=test --output name | \
                       xargs --no-run-if-empty kubectl wait --for=delete --timeout=3m";
        self.shell
            .run(deleted)
            .map(drop)
            .context("the namespace of a test is not deleted")
    }

    /// Returns the context of a test, with a new namespace.
    pub fn context(&self, test: &str) -> Result<TestContext> {
        let namespace = format!("e2e-{test}");
        // An earlier run that was killed may have left one.
        self.shell.run(&format!(
            "kubectl delete namespace {namespace} --ignore-not-found --timeout=2m && kubectl create namespace {namespace} && \
             kubectl label namespace {namespace} e2e=test"
        ))?;
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::copy(self.checkout.kubeconfig(), &kubeconfig).context("failed to copy the kubeconfig")?;
        let shell = self.shell.clone().with_kubeconfig(&kubeconfig);
        shell.run(&format!("kubectl config set-context --current --namespace {namespace}"))?;
        Ok(TestContext {
            namespace,
            shell,
            kubeconfig,
            outside: self.shell.clone(),
            notes: Mutex::default(),
            _folder: folder,
        })
    }
}

/// A namespace for one test, and a shell in it.
pub struct TestContext {
    /// The name of the namespace.
    pub namespace: String,
    /// A shell whose kubeconfig has this namespace.
    pub shell: Shell,
    /// That kubeconfig.
    pub kubeconfig: PathBuf,
    outside: Shell,
    notes: Mutex<String>,
    _folder: tempfile::TempDir,
}

impl TestContext {
    /// Adds text to the line with the result of the test.
    pub fn note(&self, text: &str) {
        crate::lock(&self.notes).push_str(text);
    }

    /// Returns the added texts.
    pub fn notes(&self) -> String {
        crate::lock(&self.notes).clone()
    }

    /// Returns the objects, Events and logs that help to explain a failure.
    pub fn describe(&self) -> String {
        let look = "kubectl get appdeploy,podset,deploy,rs,pod,svc,ing --output wide 2>&1; \
                    kubectl get events --sort-by=.lastTimestamp 2>&1 | tail -n 15; \
                    kubectl logs --namespace appdeploy-system --selector app.kubernetes.io/name=appdeploy-operator --prefix --tail 15 2>&1 || true";
        let seen = self.shell.run(look).unwrap_or_else(|error| format!("{error:#}"));
        format!("the namespace {}:\n{seen}", self.namespace)
    }
}

impl Drop for TestContext {
    fn drop(&mut self) {
        // Not awaited: pods take long to terminate, and the next run deletes what is left.
        let _ = self.outside.run(&format!(
            "kubectl delete namespace {} --ignore-not-found --wait=false",
            self.namespace
        ));
    }
}
