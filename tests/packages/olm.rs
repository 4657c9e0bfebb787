//! OLM itself installs the bundle: its two operators run here, on a control plane whose nodes are fake.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use packages::{olm, output};
use tempfile::TempDir;
use testcluster::ControlPlane;
use testcluster::binaries::{Binaries, Component, Lines, Program};
use testcluster::process::Process;

use crate::tools::{config, ok};

const PATIENCE: Duration = Duration::from_secs(180);
const HOME: &str = "appdeploy-system";
const OPERATOR: &str = "system:serviceaccount:appdeploy-system:appdeploy-operator";

/// OLM, and a catalog with the bundle in it.
struct Olm {
    cluster: ControlPlane,
    processes: Vec<Process>,
    _folder: TempDir,
}

impl Olm {
    fn start() -> Self {
        let cluster = ControlPlane::builder()
            .controller_manager(&["*"])
            .fake_nodes(1)
            .start()
            .unwrap();
        let binaries =
            Binaries::ensure(&[Component::Olm], &mut Lines::stderr()).unwrap_or_else(|error| panic!("{error}"));
        let definitions = binaries.sources(Program::Olm).unwrap().join("deploy/chart/crds");
        cluster
            .kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()])
            .unwrap();
        cluster
            .kubectl(&["wait", "--for=condition=Established", "crd", "--all"])
            .unwrap();
        for namespace in ["olm", HOME, "shop", "blog"] {
            cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        }
        let folder = tempfile::Builder::new().prefix("olm-").tempdir().unwrap();
        let (catalog, port) = serve(&binaries, folder.path());
        let run = |program: Program| {
            let mut command = Command::new(binaries.path(program));
            command.env("KUBECONFIG", cluster.kubeconfig());
            command.args(["--namespace", "olm", "--writeStatusName", ""]);
            Process::spawn(&command, &folder.path().join(program.name()).with_extension("log")).unwrap()
        };
        let processes = vec![catalog, run(Program::Olm), run(Program::OlmCatalog)];
        cluster
            .apply(&format!(
                "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\n\
                 metadata: {{name: ours, namespace: olm}}\n\
                 spec: {{sourceType: grpc, address: '127.0.0.1:{port}'}}\n"
            ))
            .unwrap();
        Self {
            cluster,
            processes,
            _folder: folder,
        }
    }

    /// Asks for the operator, for some namespaces; none means all.
    fn subscribe(&self, namespaces: &[&str]) {
        let targets = if namespaces.is_empty() {
            String::new()
        } else {
            format!("targetNamespaces: [{}]", namespaces.join(", "))
        };
        self.cluster
            .apply(&format!(
                "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
                 metadata: {{name: ours, namespace: {HOME}}}\nspec: {{{targets}}}\n---\n\
                 apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\n\
                 metadata: {{name: appdeploy, namespace: {HOME}}}\n\
                 spec: {{channel: candidate, name: appdeploy-operator, source: ours, sourceNamespace: olm}}\n"
            ))
            .unwrap();
    }

    /// Waits until kubectl prints what is wanted.
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
                .processes
                .iter_mut()
                .any(|process| process.exited().unwrap().is_some());
            if ended || begun.elapsed() > PATIENCE {
                let logs: Vec<String> = self.processes.iter().map(|process| process.log_tail(15)).collect();
                let state = self
                    .cluster
                    .kubectl(&["get", "csv,subscription,installplan", "-n", HOME, "-o", "yaml"]);
                panic!(
                    "{arguments:?} is not {wanted} but {found}\n{}\n{state:?}",
                    logs.join("\n")
                );
            }
        }
    }

    fn may(&self, verb: &str, resource: &str, namespace: &str, wanted: &str) {
        let asked = ["auth", "can-i", verb, resource, "--as", OPERATOR, "-n", namespace];
        // kubectl says no with an exit code, too, and its words are then in the error.
        let output = self
            .cluster
            .kubectl_as(&self.cluster.kubeconfig())
            .output(&asked, "")
            .unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert_eq!(answer, wanted, "{verb} {resource} in {namespace}");
    }
}

/// Serves a catalog that has the bundle itself, and returns the port.
fn serve(binaries: &Binaries, folder: &Path) -> (Process, u16) {
    let bundle = folder.join("bundle");
    output::write(&bundle, &olm::bundle(&config()).unwrap()).unwrap();
    let opm = binaries.path(Program::Opm);
    let rendered = ok(Command::new(&opm).args(["render", "-o", "yaml"]).arg(&bundle));
    let name = format!("appdeploy-operator.v{}", packages::VERSION);
    let catalog = folder.join("catalog");
    fs::create_dir_all(&catalog).unwrap();
    let package = "schema: olm.package\nname: appdeploy-operator\ndefaultChannel: candidate\n";
    let channel =
        format!("schema: olm.channel\npackage: appdeploy-operator\nname: candidate\nentries: [{{name: {name}}}]\n");
    fs::write(
        catalog.join("catalog.yaml"),
        [package, &channel, &rendered].join("---\n"),
    )
    .unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(opm);
    command
        .arg("serve")
        .arg(&catalog)
        .args(["--port", &port.to_string(), "--pprof-addr", ""]);
    command
        .arg("--cache-dir")
        .arg(folder.join("cache"))
        .arg("--cache-enforce-integrity=false");
    command.arg("--termination-log").arg(folder.join("termination"));
    (Process::spawn(&command, &folder.join("opm.log")).unwrap(), port)
}

/// OLM takes ten minutes to build the first time.
fn is_left_out() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_none()
}

#[test]
fn olm_installs_the_operator_for_all_namespaces() {
    if is_left_out() {
        return;
    }
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
fn olm_installs_the_operator_for_some_namespaces() {
    if is_left_out() {
        return;
    }
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
