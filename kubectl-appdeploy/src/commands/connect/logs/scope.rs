//! The apps or pod sets whose logs are printed, and their pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::Args;
use crate::cluster::connection::Cluster;
use crate::cluster::kind_info;
use crate::cluster::pager::Pager;
use crate::error::{Error, Result};
use crate::resource::children::is_pod_of;
use crate::resource::selection::Selection;
use crate::resource::workload::Workload;

/// The most names in one label selector. More would make the URL too long; then all pods with the label are read.
const MAX_NAMES: usize = 50;

/// The selected objects.
pub struct Scope {
    /// The apps or pod sets, by namespace and name.
    pub workloads: BTreeMap<(String, String), Workload>,
    /// Those that were named and could not be read.
    pub failures: Vec<Error>,
    /// Whether they can be in several namespaces.
    pub has_namespaces: bool,
}

impl Scope {
    /// Reads the apps or pod sets that the flags select.
    pub async fn read(args: &Args, cluster: &Cluster) -> Result<Self> {
        let mut failures = Vec::new();
        let mut workloads = BTreeMap::new();
        let mut add = |object| {
            let one = Workload::read(cluster.kind, &object);
            workloads.insert((one.namespace().to_owned(), one.name().to_owned()), one);
        };
        if args.all_namespaces {
            let mut pages = Pager::of(cluster, None, args.selector.as_deref());
            while let Some(page) = pages.next().await? {
                page.into_iter()
                    .map(|object| kind_info::complete(cluster.kind, object))
                    .for_each(&mut add);
            }
        } else {
            let which = Selection {
                names: args.names.clone(),
                selector: args.selector.clone(),
                all: args.all,
            };
            for object in which.resolve(cluster, super::EXAMPLE).await? {
                match object {
                    Ok(object) => add(object),
                    Err(error) => failures.push(error),
                }
            }
        }
        Ok(Self {
            workloads,
            failures,
            has_namespaces: args.all_namespaces,
        })
    }

    /// Returns where the pods are.
    pub fn api(&self, cluster: &Cluster) -> Api<Pod> {
        if self.has_namespaces {
            Api::all(cluster.client.clone())
        } else {
            Api::namespaced(cluster.client.clone(), &cluster.namespace)
        }
    }

    /// Returns a label selector that matches their pods, and perhaps others.
    pub fn selector(&self, cluster: &Cluster) -> String {
        let label = cluster.kind.pod_label();
        let mut names: Vec<&str> = self.workloads.values().map(Workload::name).collect();
        names.sort_unstable();
        names.dedup();
        match names.as_slice() {
            [name] => cluster.kind.pod_selector(name),
            names if names.len() <= MAX_NAMES => format!("{label} in ({})", names.join(",")),
            _ => label.to_owned(),
        }
    }

    /// Whether a pod is one of theirs.
    pub fn has(&self, pod: &Pod) -> bool {
        let name = self.kind().and_then(|kind| pod.labels().get(kind.pod_label()));
        let key = pod.namespace().zip(name.cloned());
        key.and_then(|key| self.workloads.get(&key))
            .is_some_and(|one| is_pod_of(pod, one))
    }

    fn kind(&self) -> Option<crd::Kind> {
        self.workloads.values().next().map(Workload::kind)
    }

    /// Lists their pods, by namespace and name.
    pub async fn pods(&self, cluster: &Cluster) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels(&self.selector(cluster));
        let mut pods = cluster.call(self.api(cluster).list(&params)).await?.items;
        pods.retain(|pod| self.has(pod));
        pods.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
        Ok(pods)
    }

    /// Returns what a line of a pod is labelled with.
    pub fn label(&self, pod: &Pod) -> String {
        match pod.namespace() {
            Some(namespace) if self.has_namespaces => format!("{namespace}/{}", pod.name_any()),
            _ => pod.name_any(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, app: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": format!("{app}-1"), "namespace": namespace,
            "labels": {"appdeploy.dev/app": app}}}))
        .unwrap()
    }

    #[test]
    fn pods_of_the_selected_apps_only() {
        let app = |namespace: &str, name: &str| {
            let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
                "metadata": {"name": name, "namespace": namespace}, "spec": {"image": "nginx"}});
            let app = Workload::App(serde_json::from_value(app).unwrap());
            ((namespace.to_owned(), name.to_owned()), app)
        };
        let scope = Scope {
            workloads: [app("a", "shop"), app("b", "blog")].into(),
            failures: Vec::new(),
            has_namespaces: true,
        };
        let has = |namespace, app| scope.has(&pod(namespace, app));
        assert!(has("a", "shop") && has("b", "blog"));
        assert!(!has("b", "shop") && !has("a", "blog") && !has("a", "mail"));
        assert_eq!(scope.label(&pod("a", "shop")), "a/shop-1");
    }
}
