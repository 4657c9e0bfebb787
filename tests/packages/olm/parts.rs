//! OLM's two operators and a catalog with the bundle, as processes of this machine.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use packages::{olm, output};
use tempfile::TempDir;
use testcluster::binaries::{Binaries, Component, Lines, Program};
use testcluster::process::Process;

/// The operator's namespace.
pub const HOME: &str = "appdeploy-system";

/// Runs until it is dropped.
pub struct Parts {
    /// The processes of the catalog and OLM.
    pub processes: Vec<Process>,
    port: u16,
    _folder: TempDir,
}

fn binaries() -> Binaries {
    Binaries::ensure(&[Component::Olm], &mut Lines::stderr()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the folder with OLM's CRDs.
pub fn definitions() -> PathBuf {
    binaries().sources(Program::Olm).unwrap().join("deploy/chart/crds")
}

/// Returns the manifest of a Subscription for some namespaces; none means all.
pub fn subscription(namespaces: &[&str]) -> String {
    let targets = if namespaces.is_empty() {
        String::new()
    } else {
        format!("targetNamespaces: [{}]", namespaces.join(", "))
    };
    format!(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
         metadata: {{name: ours, namespace: {HOME}}}\nspec: {{{targets}}}\n---\n\
         apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\n\
         metadata: {{name: appdeploy, namespace: {HOME}}}\n\
         spec: {{channel: candidate, name: appdeploy-operator, source: ours, sourceNamespace: olm}}\n"
    )
}

impl Parts {
    /// Starts them for a cluster that has OLM's CRDs and the namespace `olm`. `image` replaces the operator's image of
    /// the release.
    pub fn start(kubeconfig: &Path, config: &Path, image: Option<&str>) -> Self {
        let binaries = binaries();
        let folder = tempfile::Builder::new().prefix("olm-").tempdir().unwrap();
        let (catalog, port) = serve(&binaries, config, folder.path(), image);
        let run = |program: Program| {
            let mut command = Command::new(binaries.path(program));
            command.env("KUBECONFIG", kubeconfig);
            command.args(["--namespace", "olm", "--writeStatusName", ""]);
            Process::spawn(&command, &folder.path().join(program.name()).with_extension("log")).unwrap()
        };
        Self {
            processes: vec![catalog, run(Program::Olm), run(Program::OlmCatalog)],
            port,
            _folder: folder,
        }
    }

    /// Returns the manifest of the catalog.
    pub fn catalog(&self) -> String {
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\n\
             metadata: {{name: ours, namespace: olm}}\n\
             spec: {{sourceType: grpc, address: '127.0.0.1:{}'}}\n",
            self.port
        )
    }

    /// Returns the end of their logs.
    pub fn logs(&self) -> String {
        let logs: Vec<String> = self.processes.iter().map(|process| process.log_tail(15)).collect();
        logs.join("\n")
    }
}

/// Serves a catalog with the bundle, and returns the port.
fn serve(binaries: &Binaries, config: &Path, folder: &Path, image: Option<&str>) -> (Process, u16) {
    let bundle = folder.join("bundle");
    output::write(&bundle, &olm::bundle(config).unwrap()).unwrap();
    if let Some(image) = image {
        of_image(&bundle.join("manifests"), image);
    }
    let opm = binaries.path(Program::Opm);
    let rendered = Command::new(&opm)
        .args(["render", "-o", "yaml"])
        .arg(&bundle)
        .output()
        .unwrap();
    assert!(
        rendered.status.success(),
        "{}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    let rendered = String::from_utf8(rendered.stdout).unwrap();
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

/// Replaces the image of the release.
fn of_image(manifests: &Path, image: &str) {
    let release = format!("ghcr.io/appdeploy/appdeploy-operator:v{}", packages::VERSION);
    for entry in fs::read_dir(manifests).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&release, image)).unwrap();
    }
}
