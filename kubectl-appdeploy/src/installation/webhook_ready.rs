//! Waits until API servers get answers from the operator's webhooks: the operator publishes its certificate, and the network
//! must allow the connection.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DynamicObject, PostParams};
use kube::runtime::watcher;
use model::command;
use serde_json::{Value, json};

use crate::cluster::connection::Cluster;
use crate::cluster::kind_info;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::watch::{self, Connection, Watched};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::installation::manifests::{Kind, webhook};
use crate::installation::operator;
use crate::terminal::ui::Ui;

/// How long an API server may take to use a changed webhook configuration. Its requests to a webhook take up to five
/// seconds, and there are two.
const ANSWERED: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(250);

/// Waits until both configurations have a CA bundle.
pub async fn wait(cluster: &Cluster, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    for kind in Kind::webhooks() {
        let ours = watcher::Config::default().labels(&format!("app.kubernetes.io/name={}", operator::NAME));
        let changes = watch::follow_all(cluster, kind.api(&cluster.client, None), ours);
        let mut news = Watched::new(changes, Connection::after_a_change());
        let trusted = wait::until(&mut news, deadline, ui, async |event, ui| {
            if let watcher::Event::InitApply(object) | watcher::Event::Apply(object) = event {
                if webhook::is_trusted(&object) {
                    return Ok(Some(()));
                }
                let title = kind.title(&object.name_any());
                ui.progress(&format!("waiting for the certificate in {title}"));
            }
            Ok(None)
        });
        trusted.await?.ok_or_else(|| timed_out(&kind, deadline))?;
    }
    ui.clear_progress();
    Ok(())
}

/// Creates an app in a dry run until the API server gets an answer from the webhooks.
pub async fn answered(cluster: &Cluster, namespaces: &[String], deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let deadline = deadline.min(Deadline::after(ANSWERED));
    let mut last = None;
    let answered = wait::poll(PAUSE, deadline, async || {
        // Any other error comes from another webhook, called before or after the operator.
        last = ask(cluster, namespaces).await?.ok().flatten();
        if last.is_some() {
            ui.progress("waiting until the webhooks answer");
        }
        Ok(last.is_none().then_some(()))
    });
    match answered.await? {
        Some(()) => Ok(()),
        None => Err(unanswered(&last.unwrap_or_default())),
    }
}

/// Creates an app in a dry run. Returns why a webhook did not answer, or the error of
/// the API server.
pub async fn ask(cluster: &Cluster, namespaces: &[String]) -> Result<Result<Option<String>>> {
    let namespace = namespaces.first().map_or(crd::OPERATOR_NAMESPACE, String::as_str);
    let api = kind_info::api(&cluster.client, crd::Kind::AppDeploy, Some(namespace));
    let app: DynamicObject =
        serde_json::from_value(question(namespace)).map_err(|source| Error::failed(source.to_string()))?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    Ok(match cluster.attempt(api.create(&params, &app)).await? {
        Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => Ok(Some(status.message)),
        Err(source) => Err(cluster.explain(source)),
        Ok(_) => Ok(None),
    })
}

/// Returns an app that the webhooks admit without a warning.
fn question(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{}/{}", crd::GROUP, crd::VERSION), "kind": crd::Kind::AppDeploy.as_str(),
        "metadata": {"name": "install-asks", "namespace": namespace},
        "spec": {"image": "none:v0", "resources": {"requests": {"cpu": "10m"}}},
    })
}

fn unanswered(why: &str) -> Error {
    Error::new(
        ErrorKind::TimedOut,
        "the operator runs, but its webhooks do not answer, so every app is rejected",
    )
    .why(why)
    .next("allow connections from the API server to the operator's pods at port 9443: often a firewall blocks them")
    .next("kubectl appdeploy install --webhooks=false  (disables them)")
}

fn timed_out(kind: &Kind, deadline: Deadline) -> Error {
    let namespace = crd::OPERATOR_NAMESPACE;
    Error::new(
        ErrorKind::TimedOut,
        format!(
            "the operator has not published its CA certificate after {}, so every app is rejected",
            deadline.text()
        ),
    )
    .why(format!("{} has no caBundle", kind.title("appdeploy")))
    .next(command!("kubectl -n {} logs deployment/{}", namespace, operator::NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_run_app_causes_no_warning() {
        let app: crd::AppDeploy = serde_json::from_value(question("shop")).unwrap();
        assert_eq!(model::admit::warnings(&app), [""; 0]);
    }
}
