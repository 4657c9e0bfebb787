//! Waits until the API server serves a CRD.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::ListParams;
use model::command;

use crate::cluster::api_error::is_missing_api;
use crate::cluster::connection::Cluster;
use crate::cluster::wait::Deadline;
use crate::cluster::{kind_info, watch};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::terminal::ui::Ui;

/// Waits until the API answers for the kind that a definition of this name defines.
pub async fn served(cluster: &Cluster, name: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    ui.progress(&format!("waiting until {name} is served"));
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut changes = watch::follow_object(cluster, api, name);
    loop {
        let Some(next) = deadline.bound(changes.next(ui)).await else {
            return Err(not_served(name, deadline));
        };
        let Some(definition) = next?.flatten() else {
            continue;
        };
        let conditions = definition
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        if let Some(refused) = conditions
            .clone()
            .find(|c| c.type_ == "NamesAccepted" && c.status == "False")
        {
            return Err(Error::failed(format!("the cluster does not accept {name}"))
                .why(refused.message.clone().unwrap_or_default())
                .next(command!("kubectl get crd {} -o yaml", name)));
        }
        if conditions
            .clone()
            .any(|c| c.type_ == "Established" && c.status == "True")
        {
            break;
        }
    }
    // Established is true a moment before the objects can be listed, and an API server of several may be behind.
    let is_defined = |kind: &&crd::Kind| name == format!("{}.{}", kind.plural(), crd::GROUP);
    let Some(kind) = crd::Kind::ALL.iter().find(is_defined) else {
        return Ok(());
    };
    let list = kind_info::api(&cluster.client, *kind, None);
    let mut pause = Duration::from_millis(50);
    loop {
        match cluster.attempt(list.list(&ListParams::default().limit(1))).await? {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if is_missing_api(&status) => {}
            Err(source) => return Err(cluster.explain(source)),
        }
        if deadline.bound(tokio::time::sleep(pause)).await.is_none() {
            return Err(not_served(name, deadline));
        }
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

fn not_served(name: &str, deadline: Deadline) -> Error {
    Error::new(
        ErrorKind::TimedOut,
        format!("the AppDeploy API does not answer for {name} after {}", deadline.text()),
    )
    .next(command!("kubectl get crd {} -o yaml", name))
}
