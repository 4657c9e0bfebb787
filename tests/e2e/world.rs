//! The cluster of the tests, a namespace for each, and the way back to how everything was.

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use testcluster::checkout::cluster::{ingress, operator_image, pack_operator, testcluster};
use testcluster::checkout::{Checkout, Cluster, Shell};
use testcluster::node::Node;

use crate::story::INGRESS;

/// What there was before the tests.
pub struct Found {
    checkout: Checkout,
    cluster: bool,
    operator: Option<String>,
    definitions: bool,
}

impl Found {
    /// Looks, and changes nothing.
    pub fn look() -> Result<Self> {
        let checkout = Checkout::find()?;
        Ok(Self {
            cluster: Cluster::is_up(&checkout),
            checkout,
            operator: None,
            definitions: false,
        })
    }

    /// Brings it back.
    pub fn restore(&self, world: &World) -> Result<()> {
        if !self.cluster {
            return testcluster(&self.checkout, &["down"]);
        }
        match &self.operator {
            Some(image) => world.shell.run(&format!("kubectl appdeploy install --image {image}")),
            None if self.definitions => world.shell.run("kubectl appdeploy uninstall"),
            None => world.shell.run("kubectl appdeploy uninstall --delete-crds --yes"),
        }
        .map(drop)
    }
}

/// The cluster with the operator in it.
pub struct World {
    /// This checkout.
    pub checkout: Checkout,
    /// A person's shell.
    pub shell: Shell,
    /// The operator's image.
    pub image: String,
    cluster: Cluster,
}

/// Returns whether this is `make test-long`.
fn long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}

impl World {
    /// Brings the cluster up and installs the operator.
    pub fn open(image: String, found: &mut Found) -> Result<Self> {
        let checkout = Checkout::find()?;
        let cluster = Cluster::up(&checkout)?;
        let shell = Shell::new(&checkout, cluster)?;
        ensure!(
            cluster != Cluster::Real || ingress(&checkout) == INGRESS,
            "{INGRESS} is in use by another program: the guides' commands expect the ingress controller there"
        );
        let world = Self {
            checkout,
            shell,
            image,
            cluster,
        };
        found.operator = operator_image(&world.shell);
        found.definitions = world
            .shell
            .run("kubectl get crd appdeploys.appdeploy.dev --output name")
            .is_ok();
        if cluster == Cluster::Real {
            // The Dockerfile's image is the one that ships, and takes minutes to build.
            if long() {
                testcluster(&world.checkout, &["build-image", &world.image])?;
            } else if found.operator.as_ref() != Some(&world.image) {
                pack_operator(&world.checkout, &world.image)?;
            }
            world.install()?;
        }
        world.delete_leftovers()?;
        Ok(world)
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

    /// Returns why a test can't run here: on fake nodes only the demo says anything, and OLM takes long to build.
    pub fn cannot(&self, test: &str) -> Option<&'static str> {
        if test == "olm" && !long() {
            return Some("it builds OLM for ten minutes: make test-long");
        }
        (self.cluster == Cluster::Fake && test != "demo").then_some("it needs a real node, which needs root on Linux")
    }

    /// Returns the real node, whose network has the addresses of pods.
    pub fn node(&self) -> Result<Node> {
        Node::running(&self.checkout.state()).context("the node does not run")
    }

    /// Whether pages answer.
    pub fn is_real(&self) -> bool {
        self.cluster == Cluster::Real
    }

    /// Installs the operator, and returns when it runs.
    pub fn install(&self) -> Result<()> {
        self.shell
            .run(&format!("kubectl appdeploy install --image {}", self.image))
            .map(drop)
    }

    /// Waits until the namespaces of all tests are deleted.
    pub fn until_clean(&self) -> Result<()> {
        let deleted = "kubectl get namespace --selector e2e=test --output name | \
                       xargs --no-run-if-empty kubectl wait --for=delete --timeout=3m";
        self.shell.run(deleted).map(drop).context("a namespace of a test stays")
    }

    /// Returns a new namespace and a shell that works in it.
    pub fn space(&self, test: &str) -> Result<Space> {
        let namespace = format!("e2e-{test}");
        // One of an earlier run that was killed goes first.
        self.shell.run(&format!(
            "kubectl delete namespace {namespace} --ignore-not-found --timeout=2m && kubectl create namespace {namespace} && \
             kubectl label namespace {namespace} e2e=test"
        ))?;
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::copy(self.checkout.kubeconfig(), &kubeconfig).context("failed to copy the kubeconfig")?;
        let shell = self.shell.clone().with_kubeconfig(&kubeconfig);
        shell.run(&format!("kubectl config set-context --current --namespace {namespace}"))?;
        Ok(Space {
            namespace,
            shell,
            kubeconfig,
            outside: self.shell.clone(),
            notes: Mutex::default(),
            _folder: folder,
        })
    }
}

/// A namespace for one test.
pub struct Space {
    /// Its name.
    pub namespace: String,
    /// A shell whose kubeconfig names it.
    pub shell: Shell,
    /// That kubeconfig.
    pub kubeconfig: PathBuf,
    outside: Shell,
    notes: Mutex<String>,
    _folder: tempfile::TempDir,
}

impl Space {
    /// Adds text to the line that tells how the test ended.
    pub fn note(&self, text: &str) {
        crate::lock(&self.notes).push_str(text);
    }

    /// Returns what was noted.
    pub fn notes(&self) -> String {
        crate::lock(&self.notes).clone()
    }

    /// Returns what somebody wants to see after a failure.
    pub fn scene(&self) -> String {
        let look = "kubectl get appdeploy,podset,deploy,rs,pod,svc,ing --output wide 2>&1; \
                    kubectl get events --sort-by=.lastTimestamp 2>&1 | tail -n 15; \
                    kubectl logs --namespace appdeploy-system --selector app.kubernetes.io/name=appdeploy-operator --prefix --tail 15 2>&1 || true";
        let seen = self.shell.run(look).unwrap_or_else(|error| format!("{error:#}"));
        format!("this is how {} looked:\n{seen}", self.namespace)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // A namespace that stays is deleted by the next run. It takes as long as its pods take to end, while other tests run.
        let _ = self.outside.run(&format!(
            "kubectl delete namespace {} --ignore-not-found --wait=false",
            self.namespace
        ));
    }
}
