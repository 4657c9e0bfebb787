//! Every way to install AppDeploy installs the same objects. Each difference is here, with its reason.

use crate::objects::{Objects, assert_same, take};
use crate::tools::{Helm, kustomized, plugin};

/// Removes the usual labels of Helm charts.
fn without_helms_own(mut objects: Objects) -> Objects {
    for object in objects.values_mut() {
        take(object, "labels", &["app.kubernetes.io/managed-by", "helm.sh/chart"]);
        // Helm must not delete the CRDs with all their objects, or the policy that protects them.
        let protects = object["metadata"]["name"] == "appdeploy-definitions";
        if object["kind"] == "CustomResourceDefinition" || protects {
            take(object, "annotations", &["helm.sh/resource-policy"]);
        }
    }
    objects
}

#[test]
fn plugin_installs_what_kustomize_builds() {
    assert_same(&plugin(&[]), &kustomized("default"));
}

#[test]
fn chart_installs_what_kustomize_builds() {
    let helm = Helm::new();
    let whole = helm.template(&["--set", "namespace.create=true"]);
    assert_same(&without_helms_own(whole), &kustomized("default"));
}

#[test]
fn helm_creates_the_namespace() {
    let mut wanted = kustomized("default");
    wanted.remove("Namespace /appdeploy-system").expect("a namespace");
    assert_same(&without_helms_own(Helm::new().template(&[])), &wanted);
}

#[test]
fn values_of_the_chart_match_the_flags_of_the_plugin() {
    let cases: [(&[&str], &[&str]); 7] = [
        (
            &["operator.watchNamespaces={shop,blog,shop}"],
            &["--watch-namespace=shop,blog"],
        ),
        (
            &["operator.watchNamespaces={shop,blog}", "webhooks.enabled=true"],
            &["--watch-namespace=shop,blog", "--webhooks"],
        ),
        (
            &["webhooks.enabled=false", "operator.allowUncheckedFields=true"],
            &["--webhooks=false", "--allow-unchecked-fields"],
        ),
        (
            &["operator.allowedHostSuffixes={a.example,b.example}"],
            &["--allowed-host-suffix=a.example,b.example"],
        ),
        (
            &["image.repository=registry.example.com/op", "image.tag=v2"],
            &["--image=registry.example.com/op:v2"],
        ),
        (
            &[
                "operator.watchConfigMaps=true",
                "operator.concurrency=8",
                "operator.resyncPeriod=30m",
                "operator.logFormat=json",
            ],
            &[
                "--watch-configmaps",
                "--concurrency=8",
                "--resync-period=30m",
                "--log-format=json",
            ],
        ),
        (
            &["operator.ingressAddress=ignore", "operator.logLevel=info\\,kube=debug"],
            &["--ingress-address=ignore", "--log-level=info,kube=debug"],
        ),
    ];
    let helm = Helm::new();
    for (values, flags) in cases {
        let mut arguments = vec!["--set", "namespace.create=true"];
        arguments.extend(values.iter().flat_map(|value| ["--set", value]));
        assert_same(&without_helms_own(helm.template(&arguments)), &plugin(flags));
    }
}
