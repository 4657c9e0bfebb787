//! What makes the API server ask an operator before it stores an object, as `install` gives it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Cluster, Operator, config, eventually, free_address};

/// The address of an operator's webhooks, and their configurations.
pub struct Webhooks {
    pub bind: SocketAddr,
}

impl Webhooks {
    /// Creates the configurations with an address that does not answer yet, and grants the operator its rights.
    pub fn install(cluster: &Cluster) -> Self {
        let webhooks = Self { bind: free_address() };
        for file in ["role", "role_binding", "cluster_role", "cluster_role_binding"] {
            let manifest = config(&format!("rbac/webhook_{file}.yaml"));
            cluster.control_plane.apply(&manifest).unwrap();
        }
        // An API server looks for a Service of this type under its external name, by the name that the certificate has.
        let mut service = read(cluster, "service");
        service["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
        cluster.control_plane.apply(&service.to_string()).unwrap();
        for file in ["validating", "mutating"] {
            let mut configuration = read(cluster, file);
            for webhook in configuration["webhooks"].as_array_mut().unwrap() {
                webhook["clientConfig"]["service"]["port"] = json!(webhooks.bind.port());
            }
            cluster.control_plane.apply(&configuration.to_string()).unwrap();
        }
        webhooks
    }

    /// Starts an operator that answers, and waits until the API server knows by which certificate.
    pub fn operator(&self, cluster: &Cluster, flags: &[&str]) -> Operator {
        let bind = self.bind.to_string();
        let flags = [&["--webhooks", "--webhook-bind", &bind], flags].concat();
        let operator = cluster.operator(&flags);
        for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
            let bundle = "jsonpath={.webhooks[*].clientConfig.caBundle}";
            eventually("the API server trusts the webhooks", || {
                let asked = ["get", kind, "appdeploy", "-o", bundle];
                !cluster.control_plane.kubectl(&asked).unwrap().is_empty()
            });
        }
        // A new configuration takes a moment to be used.
        let probe = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "probe", "namespace": "default"}, "spec": {"image": "busybox"}});
        let admin = cluster.control_plane.kubectl_as(&cluster.control_plane.kubeconfig());
        eventually("the API server asks the operator", || {
            let created = admin.run_with_input(
                &[
                    "create",
                    "--dry-run=server",
                    "-o",
                    "jsonpath={.metadata.labels}",
                    "-f",
                    "-",
                ],
                &probe.to_string(),
            );
            created.is_ok_and(|labels| labels.contains("probe"))
        });
        operator
    }
}

/// Reads a manifest of config/webhook.
fn read(cluster: &Cluster, file: &str) -> Value {
    let admin = cluster.control_plane.kubectl_as(&cluster.control_plane.kubeconfig());
    let text = admin.read(&config(&format!("webhook/{file}.yaml")));
    serde_json::from_str(&text.unwrap()).unwrap()
}
