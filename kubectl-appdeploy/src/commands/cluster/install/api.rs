//! Waits until the API server serves a CRD.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::ListParams;
use model::command;

use crate::cluster::api_error::is_missing_api;
use crate::cluster::connection::Cluster;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::{kind_info, watch};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::terminal::ui::Ui;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until the API answers for the kind that a definition of this name defines.
pub async fn served(cluster: &Cluster, name: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    ui.progress(&format!("waiting until {name} is served"));
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut changes = watch::follow_object(cluster, api, name);
    let established = wait::until(
        &mut changes,
        deadline,
        ui,
        async |definition: Option<CustomResourceDefinition>, _| {
            let status = definition.and_then(|definition| definition.status);
            let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
            let find = |kind: &str, status: &str| conditions.iter().find(|c| c.type_ == kind && c.status == status);
            if let Some(refused) = find("NamesAccepted", "False") {
                return Err(Error::failed(format!("the cluster does not accept {name}"))
                    .why(refused.message.clone().unwrap_or_default())
                    .next(command!("kubectl get crd {} -o yaml", name)));
            }
            Ok(find("Established", "True").map(|_| ()))
        },
    );
    established.await?.ok_or_else(|| not_served(name, deadline))?;
    // Established is true a moment before the objects can be listed, and an API server of several may be behind.
    let is_defined = |kind: &&kind_info::KindInfo| name == format!("{}.{}", kind.names.plural, crd::GROUP);
    let Some(kind) = kind_info::ALL.into_iter().find(is_defined) else {
        return Ok(());
    };
    let list = kind_info::api(&cluster.client, kind, None);
    let answers = wait::poll(PAUSE, deadline, async || {
        match cluster.attempt(list.list(&ListParams::default().limit(1))).await? {
            Ok(_) => Ok(Some(())),
            Err(kube::Error::Api(status)) if is_missing_api(&status) => Ok(None),
            Err(source) => Err(cluster.explain(source)),
        }
    });
    answers.await?.ok_or_else(|| not_served(name, deadline))
}

fn not_served(name: &str, deadline: Deadline) -> Error {
    Error::new(
        ErrorKind::TimedOut,
        format!("{name} is not served after {}", deadline.text()),
    )
    .next(command!("kubectl get crd {} -o yaml", name))
}
