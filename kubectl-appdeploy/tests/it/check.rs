//! Checks of a cluster before an installation, of an installation, and with few rights.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::plugin::{Plugin, Run};

/// What of this cluster is not as it should be: it has no ingress controller.
const ALWAYS: &str = "AD0104";

/// Returns the severity of each check that is not well, by its code.
fn troubles(run: &Run) -> BTreeMap<String, String> {
    let page: Value = serde_json::from_str(&run.out).unwrap();
    let checks = page["checks"].as_array().unwrap().iter();
    let troubles = checks.filter(|check| check["severity"] != "ok" && check["code"] != ALWAYS);
    troubles
        .map(|check| {
            let word = |key: &str| check[key].as_str().unwrap().to_owned();
            (word("code"), word("severity"))
        })
        .collect()
}

fn are(troubles: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = troubles
        .iter()
        .map(|(code, word)| ((*code).to_owned(), (*word).to_owned()));
    own.collect()
}

#[test]
fn check_before_an_installation_changes_nothing() {
    let cluster = ControlPlane::builder().fake_nodes(1).start().unwrap();
    let admin = Plugin::admin(&cluster);
    let jane = Plugin::of(&cluster.kubeconfig_for("jane", &[]).unwrap());
    let audit = cluster.audit();

    let mark = audit.mark().unwrap();
    let well = admin.run("check --pre -o json");
    let asked = audit
        .since(mark)
        .unwrap()
        .by_user_agent_prefix("kubectl-appdeploy/")
        .tally();
    assert_eq!(troubles(&well), are(&[]), "{well:?}");
    well.ok();
    assert_eq!(asked.get("create selfsubjectaccessreviews"), None, "{asked:?}");
    assert_eq!(
        cluster
            .kubectl(&[
                "get",
                "crd,clusterrole",
                "-l",
                "app.kubernetes.io/part-of=appdeploy",
                "-o",
                "name"
            ])
            .unwrap(),
        ""
    );

    let few = jane.run("check --pre -o json");
    assert_eq!(
        troubles(&few),
        are(&[("AD0103", "warning"), ("AD0201", "error"), ("AD0203", "warning")]),
        "{few:?}"
    );
    assert!(few.out.contains("not allowed: namespace/appdeploy-system, "), "{few:?}");
    let said = few.fails(1);
    assert!(
        said.starts_with("error: AppDeploy can't be installed in this cluster: 1 error, "),
        "{said}"
    );
    // An installation for one namespace needs fewer rights.
    jane.run("check --pre --watch-namespace=default").fails(1);
    let astray = admin.run("check --watch-namespace=default").fails(2);
    assert!(astray.contains("only be used with --pre"), "{astray}");

    let page = admin.run("check --pre").ok();
    assert!(
        page.starts_with("Cluster\nok      the API server answers\n") && page.ends_with(" 0 errors, 1 warning\n"),
        "{page}"
    );
    let short = admin.run("check --pre -o short").ok();
    assert!(
        short.starts_with("warning AD0104: no IngressClass exists") && short.lines().count() == 1,
        "{short}"
    );
    assert_eq!(admin.run("check --pre -o short --suppress=ad0104").ok(), "");
    assert!(admin.run("check --suppress=AD9999").fails(2).contains("unknown check"));
    let nobody = admin.run("check -s http://127.0.0.1:1 -o short");
    assert!(
        nobody
            .out
            .starts_with("error AD0101: cannot reach the cluster at http://127.0.0.1:1"),
        "{nobody:?}"
    );
    nobody.fails(1);

    // Third-party objects.
    cluster.kubectl(&["create", "namespace", "appdeploy-system"]).unwrap();
    let foreign = admin.run("check --pre -o json");
    assert_eq!(troubles(&foreign), are(&[("AD0203", "error")]), "{foreign:?}");
    foreign.fails(1);
}

/// Lets a pod lead, as of now.
fn elect(cluster: &ControlPlane) {
    let pods = [
        "-n",
        "appdeploy-system",
        "get",
        "pods",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ];
    let pod = cluster.kubectl(&pods).unwrap();
    let now = jiff::Timestamp::now();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "appdeploy-operator", "namespace": "appdeploy-system"},
        "spec": {"holderIdentity": format!("{pod}_00"), "leaseDurationSeconds": 3600, "renewTime": format!("{now:.6}")}});
    cluster.apply(&lease.to_string()).unwrap();
}

#[test]
fn check_reports_the_state_of_an_installation() {
    let cluster = ControlPlane::builder()
        .controller_manager(&["*"])
        .fake_nodes(1)
        .start()
        .unwrap();
    let plugin = Plugin::admin(&cluster);
    let absent = plugin.run("check -o json");
    assert_eq!(troubles(&absent), are(&[("AD0301", "error"), ("AD0401", "error")]));
    absent.fails(1);

    plugin.run("install --webhooks=false --timeout=60s").ok();
    elect(&cluster);
    let check = |expected: &[(&str, &str)]| {
        let run = plugin.run("check -o json");
        let mut expected = are(expected);
        expected.insert("AD0501".to_owned(), "info".to_owned());
        assert_eq!(troubles(&run), expected, "{run:?}");
        let is_error = expected.values().any(|word| word == "error");
        assert_eq!(run.code, i32::from(is_error), "{run:?}");
    };
    check(&[]);
    plugin.run("check --wait --timeout=1m").ok();

    // A user with few rights gets warnings.
    let jane = Plugin::of(&cluster.kubeconfig_for("jane", &[]).unwrap());
    let few = jane.run("check -o json");
    let unseen = troubles(&few);
    assert!(unseen.values().all(|word| word == "warning"), "{few:?}");
    assert_eq!(
        unseen.keys().collect::<Vec<_>>(),
        ["AD0103", "AD0301", "AD0401", "AD0601"],
        "{few:?}"
    );
    few.ok();

    // A definition of another version.
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fancy";
    let revision = "/metadata/annotations/appdeploy.dev~1schema-revision";
    let revised = |number: &str| json!({"op": "add", "path": revision, "value": number});
    let change = json!([{"op": "add", "path": field, "value": {"type": "string"}}, revised("4000")]).to_string();
    cluster
        .kubectl(&["patch", "crd", "appdeploys.appdeploy.dev", "--type=json", "-p", &change])
        .unwrap();
    check(&[("AD0302", "warning")]);
    let version = plugin.run("version");
    assert!(
        version
            .err
            .contains("Warning: appdeploys.appdeploy.dev is newer than this plugin"),
        "{version:?}"
    );
    let change = json!([{"op": "remove", "path": field}, revised("4001")]).to_string();
    cluster
        .kubectl(&["patch", "crd", "appdeploys.appdeploy.dev", "--type=json", "-p", &change])
        .unwrap();

    cluster
        .kubectl(&["delete", "clusterrolebinding", "appdeploy-operator"])
        .unwrap();
    cluster
        .kubectl(&["-n", "appdeploy-system", "delete", "networkpolicy", "default-deny"])
        .unwrap();
    check(&[("AD0404", "error"), ("AD0405", "warning")]);

    // The webhooks are called and do not answer: the pods are fake.
    plugin.run("install --wait=false --force-conflicts").ok();
    cluster
        .kubectl(&[
            "-n",
            "appdeploy-system",
            "rollout",
            "status",
            "deployment/appdeploy-operator",
            "--timeout=60s",
        ])
        .unwrap();
    elect(&cluster);
    let asked = plugin.run("check -o json");
    assert_eq!(troubles(&asked), are(&[("AD0501", "error")]), "{asked:?}");
    let nobody = plugin.run("check -o short").out;
    assert!(
        nobody.contains(
            "error AD0501: mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy has no CA bundle"
        ),
        "{nobody}"
    );

    cluster
        .kubectl(&[
            "-n",
            "appdeploy-system",
            "scale",
            "deployment",
            "appdeploy-operator",
            "--replicas=0",
        ])
        .unwrap();
    let off = plugin.run("check -o short").out;
    assert!(
        off.contains("error AD0401: the operator is switched off: its Deployment is scaled to 0; next: kubectl -n "),
        "{off}"
    );
}
