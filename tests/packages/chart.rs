//! The chart: its values, and an installation in a cluster.

use std::process::Command;

use serde_json::json;
use testcluster::ControlPlane;

use crate::tools::{Helm, ok, said};

const OPERATOR: &str = "Deployment appdeploy-system/appdeploy-operator";

#[test]
fn helm_lint_passes() {
    let helm = Helm::new();
    let output = helm
        .command("lint")
        .arg("--strict")
        .arg(helm.chart())
        .args(["--kube-version", "1.36.0"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("WARNING"), "{}", said(&output));
}

#[test]
fn values_are_applied_to_the_operators_pod() {
    let objects = Helm::new().template(&[
        "--set=replicas=1,image.digest=sha256:0123456789012345678901234567890123456789012345678901234567890123",
        "--set=image.pullPolicy=Always,priorityClassName=system-cluster-critical,imagePullSecrets[0].name=password",
        "--set=operator.extraArgs={--bind=0.0.0.0:8081},operator.allowedHostSuffixes={a.example,b.example}",
        "--set-json=nodeSelector={\"kubernetes.io/os\":\"linux\"}",
        "--set-json=tolerations=[{\"operator\":\"Exists\"}]",
        "--set-json=affinity={\"nodeAffinity\":{}}",
        "--set-json=resources={\"limits\":{\"memory\":\"1Gi\"}}",
        "--set-json=podAnnotations={\"a\":\"b\"}",
    ]);
    let spec = &objects[OPERATOR]["spec"];
    assert_eq!(spec["replicas"], 1);
    let template = &spec["template"];
    assert_eq!(template["metadata"]["annotations"]["a"], "b");
    assert_eq!(
        template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"],
        "operator"
    );
    let pod = &template["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "password"}]));
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["affinity"], json!({"nodeAffinity": {}}));
    let container = &pod["containers"][0];
    let digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123";
    assert_eq!(
        container["image"],
        format!("ghcr.io/appdeploy/appdeploy-operator{digest}")
    );
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["resources"]["limits"], json!({"memory": "1Gi"}));
    assert_eq!(
        container["args"],
        json!(["--allowed-host-suffix=a.example,b.example", "--bind=0.0.0.0:8081"])
    );
}

#[test]
fn parts_can_be_left_out() {
    let helm = Helm::new();
    let all = helm.template(&[]).len();
    let count = |value| helm.template(&["--set", value]).len();
    // Three CRDs, and the policy that protects them with its binding.
    assert_eq!(count("crds.install=false"), all - 5);
    assert_eq!(count("policies.enabled=false"), all - 4);
    assert_eq!(count("networkPolicy.defaultDeny=false"), all - 1);
    assert_eq!(count("networkPolicy.enabled=false"), all - 2);

    let ports = helm.template(&["--set", "networkPolicy.apiServerPorts={16443}"]);
    let policy = &ports["NetworkPolicy appdeploy-system/appdeploy-operator"];
    assert_eq!(policy["spec"]["egress"][1]["ports"], json!([{"port": 16443}]));
}

#[test]
fn another_namespace_is_used_everywhere() {
    let helm = Helm::new();
    let printed = ok(helm.templating(&[]).args(["--namespace", "platform"]));
    let named: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("appdeploy-system") && !line.trim_start().starts_with('#'))
        .collect();
    assert_eq!(named, Vec::<&str>::new());
}

#[test]
fn unknown_value_is_rejected() {
    let helm = Helm::new();
    for (value, told) in [
        ("replica=3", "'replica' not allowed"),
        ("operator.logFormat=xml", "/operator/logFormat"),
        ("operator.concurrency=0", "/operator/concurrency"),
        ("operator.watchNamespaces={Shop}", "/operator/watchNamespaces/0"),
        ("crds.keep=perhaps", "/crds/keep"),
    ] {
        let output = helm.templating(&["--set", value]).output().unwrap();
        assert!(!output.status.success(), "{value}");
        assert!(said(&output).contains(told), "{value}: {}", said(&output));
    }
}

#[test]
fn chart_is_installed_upgraded_and_uninstalled_without_the_apps() {
    let cluster = ControlPlane::start().unwrap();
    let helm = Helm::new();
    let run = |verb: &str, arguments: &[&str]| {
        let mut command: Command = helm.command(verb);
        command.arg("appdeploy").args(arguments);
        command.args(["--namespace", "appdeploy-system", "--kubeconfig"]);
        ok(command.arg(cluster.kubeconfig()))
    };
    let chart = helm.chart();
    let chart = chart.to_str().unwrap();

    // There are no pods here, so no operator could answer.
    let notes = run(
        "install",
        &[chart, "--create-namespace", "--set=webhooks.enabled=false"],
    );
    assert!(
        notes.contains("is installed in the namespace appdeploy-system"),
        "{notes}"
    );
    assert!(notes.contains("  kind: AppDeploy\n"), "{notes}");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/samples");
    let apply = ["apply", "--server-side", "--validate=strict", "-k", sample];
    cluster
        .kubectl(&["wait", "--for=condition=Established", "crd", "--all"])
        .unwrap();
    cluster.kubectl(&apply).unwrap();

    // An older CRD lacks a column; an upgrade adds it.
    let columns = [
        "get",
        "crd",
        "podsets.appdeploy.dev",
        "-o",
        "jsonpath={.spec.versions[0].additionalPrinterColumns}",
    ];
    let wanted = cluster.kubectl(&columns).unwrap();
    let older = r#"[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]"#;
    cluster
        .kubectl(&["patch", "crd", "podsets.appdeploy.dev", "--type=json", "-p", older])
        .unwrap();
    assert_eq!(cluster.kubectl(&columns).unwrap(), "");
    run("upgrade", &[chart, "--reuse-values", "--set=replicas=1"]);
    assert_eq!(cluster.kubectl(&columns).unwrap(), wanted);
    let replicas = [
        "get",
        "deployment",
        "-n",
        "appdeploy-system",
        "-o",
        "jsonpath={.items[*].spec.replicas}",
    ];
    assert_eq!(cluster.kubectl(&replicas).unwrap(), "1");

    // The API server accepts every object of the chart.
    let some = [
        "--set=operator.watchNamespaces={default}",
        "--set=webhooks.enabled=true",
    ];
    run("upgrade", &[&[chart], &some[..]].concat());
    let selected = "jsonpath={.webhooks[0].namespaceSelector.matchExpressions[0].values}";
    let asked = cluster.kubectl(&["get", "validatingwebhookconfiguration", "appdeploy", "-o", selected]);
    assert_eq!(asked.unwrap(), "[\"default\"]");
    let role = ["get", "role", "appdeploy-operator", "-n", "default", "-o", "name"];
    assert_eq!(
        cluster.kubectl(&role).unwrap(),
        "role.rbac.authorization.k8s.io/appdeploy-operator\n"
    );

    run("uninstall", &[]);
    let left = [
        "get",
        "deployments,networkpolicies,serviceaccounts,roles",
        "-n",
        "appdeploy-system",
        "-o",
        "name",
    ];
    assert_eq!(cluster.kubectl(&left).unwrap(), "");
    let apps = cluster
        .kubectl(&["get", "appdeploys,podsets", "-A", "-o", "name"])
        .unwrap();
    assert_eq!(apps, "appdeploy.appdeploy.dev/hello\npodset.appdeploy.dev/workers\n");
}
