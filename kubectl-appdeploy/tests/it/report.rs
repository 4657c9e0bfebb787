//! A report: what is in it, and what never is.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use testcluster::ControlPlane;

use crate::plugin::Plugin;

/// Secrets that must not leave the cluster.
const SECRET: &str = "open-sesame-4711";

/// Returns the files of a report, without the folder that they are in.
fn files(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name.split_once('/').unwrap().1.to_owned(), text)
    });
    entries.collect()
}

#[test]
fn report_contains_diagnostics_and_no_secret() {
    let cluster = ControlPlane::builder()
        .controller_manager(&["*"])
        .fake_nodes(1)
        .start()
        .unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run("install --webhooks=false --timeout=60s").ok();
    plugin
        .run(&format!("create shop --image=nginx --port=80 --env=KEY={SECRET}"))
        .ok();
    plugin.run("podset create workers --image=nginx").ok();
    plugin.run("queue create orders --region=us-east-1").ok();
    cluster
        .kubectl(&["annotate", "appdeploy", "shop", &format!("example.com/note={SECRET}")])
        .unwrap();
    let literal = format!("--from-literal=key={SECRET}");
    cluster
        .kubectl(&["create", "secret", "generic", "db", &literal])
        .unwrap();
    cluster.kubectl(&["create", "configmap", "notes", &literal]).unwrap();
    let message = format!("crashed with {SECRET} and password=hunter2");
    let event = serde_json::json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "shop.1", "namespace": "default"}, "message": message,
        "reason": "Crash", "type": "Warning", "involvedObject": {"kind": "AppDeploy", "name": "shop", "namespace": "default"}});
    cluster.apply(&event.to_string()).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.tar.gz");
    let audit = cluster.audit();
    let mark = audit.mark().unwrap();
    let written = plugin.run(&format!("report -f {}", file.display()));
    let asked = audit.since(mark).unwrap().by_user_agent_prefix("kubectl-appdeploy/");
    assert!(
        asked
            .iter()
            .all(|request| !["secrets", "configmaps"].contains(&request.resource.as_str()))
    );
    assert!(
        written.err.contains("Check the file before you send it."),
        "{written:?}"
    );
    assert_eq!(written.ok(), format!("{}\n", file.display()));

    let files = files(&file);
    for name in [
        "README.txt",
        "versions.yaml",
        "checks.txt",
        "checks.json",
        "api/definitions.yaml",
        "operator/deployment.yaml",
        "operator/pods.yaml",
        "apps/appdeploys.yaml",
        "apps/podsets.yaml",
        "apps/appqueues.yaml",
        "apps/events.yaml",
    ] {
        assert!(files.contains_key(name), "{name} of {:?}", files.keys());
        assert!(
            name == "README.txt" || files["README.txt"].contains(name),
            "{}",
            files["README.txt"]
        );
    }
    for (name, text) in &files {
        assert!(!text.contains(SECRET) && !text.contains("hunter2"), "{name}: {text}");
    }
    let app = &files["apps/appdeploys.yaml"];
    assert!(app.contains("name: KEY") && app.contains("value: <redacted>"), "{app}");
    assert!(files["apps/events.yaml"].contains("crashed with <redacted> and password=<redacted>"));

    // Nothing is overwritten, and little is better than nothing.
    assert!(
        plugin
            .run(&format!("report -f {}", file.display()))
            .fails(1)
            .contains("exists")
    );
    let jane = Plugin::of(&cluster.kubeconfig_for("jane", &[]).unwrap());
    cluster
        .kubectl(&[
            "create",
            "rolebinding",
            "jane",
            "--clusterrole=appdeploy-viewer",
            "--user=jane",
            "-n",
            "default",
        ])
        .unwrap();
    let little = folder.path().join("little.tar.gz");
    let told = jane.run(&format!("report -n default -f {}", little.display()));
    assert!(
        told.err.contains("left out: operator/pods.yaml: n/a (forbidden)"),
        "{told:?}"
    );
    told.ok();
    let few = self::files(&little);
    assert!(few["apps/appdeploys.yaml"].contains("name: shop"), "{few:?}");
    assert!(few["README.txt"].contains("operator/pods.yaml: n/a (forbidden)"));
}
