//! Checks the cluster itself: version, nodes, IngressClasses.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use model::command;

use super::facts::Facts;
use super::finding::Finding;
use crate::installation::check::code::Code;
use crate::output::formats::some;

/// The oldest supported minor version of Kubernetes: match conditions of webhooks are stable since then.
const OLDEST: u32 = 30;
/// The annotation of the default IngressClass.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// Returns the findings.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    vec![
        Finding::ok(Code::Reachable, "the API server answers"),
        version(&facts.version),
        nodes(facts),
        classes(facts),
    ]
}

fn version(text: &str) -> Finding {
    let mut numbers = text.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(minor))) if minor < OLDEST => Finding::error(
            Code::Version,
            format!("Kubernetes {text} is too old: AppDeploy needs v1.{OLDEST} or newer"),
        )
        .next("update the cluster"),
        (Some(Ok(_)), Some(Ok(_))) => Finding::ok(Code::Version, format!("Kubernetes {text} is new enough")),
        _ => Finding::warning(Code::Version, format!("the version {text} of Kubernetes can't be read"))
            .next("kubectl version"),
    }
}

fn nodes(facts: &Facts) -> Finding {
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(error) => return Finding::unseen(Code::Nodes, "nodes", error),
    };
    let unready: Vec<String> = nodes.iter().filter_map(problem).collect();
    let all = nodes.len();
    match (all, all - unready.len()) {
        (0, _) => Finding::error(Code::Nodes, "the cluster has no nodes: no pod can run").next("kubectl get nodes"),
        (1, 1) => Finding::ok(Code::Nodes, "the node is schedulable"),
        (all, able) if able == all => Finding::ok(Code::Nodes, format!("all {all} nodes are schedulable")),
        (all, 0) => Finding::error(Code::Nodes, format!("none of {all} nodes is schedulable"))
            .why(some(&unready))
            .next("kubectl describe nodes"),
        (all, able) => Finding::warning(Code::Nodes, format!("{able} of {all} nodes are schedulable"))
            .why(some(&unready))
            .next("kubectl describe nodes"),
    }
}

/// Returns why a node is not schedulable.
fn problem(node: &Node) -> Option<String> {
    let name = node.name_any();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if !is_ready {
        return Some(format!("{name} is not ready"));
    }
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    is_cordoned.then(|| format!("{name} is cordoned"))
}

fn classes(facts: &Facts) -> Finding {
    let classes = match &facts.classes {
        Ok(classes) => classes,
        Err(error) => return Finding::unseen(Code::IngressClass, "IngressClasses", error),
    };
    let is_default = |annotations: &std::collections::BTreeMap<String, String>| {
        annotations.get(IS_DEFAULT).is_some_and(|value| value == "true")
    };
    let defaults: Vec<String> = classes
        .iter()
        .filter(|class| is_default(class.annotations()))
        .map(kube::ResourceExt::name_any)
        .collect();
    let all: Vec<String> = classes.iter().map(kube::ResourceExt::name_any).collect();
    match (&all[..], &defaults[..]) {
        ([], _) => Finding::warning(
            Code::IngressClass,
            "no IngressClass exists: apps are only reachable from inside the cluster",
        )
        .next("install an ingress controller, such as Traefik"),
        (_, [one]) => Finding::ok(Code::IngressClass, format!("IngressClass {one} is the default")),
        (all, []) => Finding::warning(
            Code::IngressClass,
            "no IngressClass is the default: apps without ingressClassName are only reachable from inside the cluster",
        )
        .why(format!("there is {}", some(all)))
        .next(command!("kubectl annotate ingressclass {} {}=true", all[0], IS_DEFAULT)),
        (_, several) => Finding::warning(
            Code::IngressClass,
            "several IngressClasses are the default: the newest is used",
        )
        .why(some(several))
        .next(command!(
            "kubectl annotate ingressclass {} {}-",
            several.last().map_or("", String::as_str),
            IS_DEFAULT
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::installation::check::sample::{self, short};
    use serde_json::json;

    #[test]
    fn each_requirement_of_apps_has_one_line() {
        let mut facts = sample::well();
        insta::assert_snapshot!(short(&findings(&facts)), @r"
        ok AD0101: the API server answers
        ok AD0102: Kubernetes v1.36.3 is new enough
        ok AD0103: the node is schedulable
        ok AD0104: IngressClass traefik is the default
        ");
        facts.version = "v1.27.3-gke.100".to_owned();
        let node = |name: &str, ready: &str, cordoned: bool| {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"unschedulable": cordoned},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
        };
        facts.nodes = Ok(vec![
            node("a", "True", false),
            node("b", "Unknown", false),
            node("c", "True", true),
        ]);
        let class = |name: &str, value: &str| {
            serde_json::from_value(json!({"metadata": {"name": name, "annotations": {IS_DEFAULT: value}}})).unwrap()
        };
        facts.classes = Ok(vec![class("nginx", "false"), class("traefik", "no")]);
        insta::assert_snapshot!(short(&findings(&facts)), @r"
        ok AD0101: the API server answers
        error AD0102: Kubernetes v1.27.3-gke.100 is too old: AppDeploy needs v1.30 or newer; next: update the cluster
        warning AD0103: 1 of 3 nodes are schedulable (b is not ready, c is cordoned); next: kubectl describe nodes
        warning AD0104: no IngressClass is the default: apps without ingressClassName are only reachable from inside the cluster (there is nginx, traefik); next: kubectl annotate ingressclass nginx ingressclass.kubernetes.io/is-default-class=true
        ");
        facts.version = "devel".to_owned();
        facts.nodes = Err(Error::failed("Error from server (Forbidden): nodes is forbidden"));
        facts.classes = Ok(vec![class("nginx", "true"), class("traefik", "true")]);
        insta::assert_snapshot!(short(&findings(&facts)[1..]), @r"
        warning AD0102: the version devel of Kubernetes can't be read; next: kubectl version
        warning AD0103: nodes: n/a (forbidden)
        warning AD0104: several IngressClasses are the default: the newest is used (nginx, traefik); next: kubectl annotate ingressclass traefik ingressclass.kubernetes.io/is-default-class-
        ");
        facts.nodes = Ok(vec![node("b", "False", false)]);
        facts.classes = Ok(vec![]);
        insta::assert_snapshot!(short(&findings(&facts)[2..]), @r"
        error AD0103: none of 1 nodes is schedulable (b is not ready); next: kubectl describe nodes
        warning AD0104: no IngressClass exists: apps are only reachable from inside the cluster; next: install an ingress controller, such as Traefik
        ");
    }
}
