//! Waiting until API servers know by which certificate the operator answers them: it tells them itself.

use std::pin::pin;

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::runtime::watcher;

use crate::connection::Cluster;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::manifests::{Kind, webhook};
use crate::operator;
use crate::ui::Ui;
use crate::wait::{self, Deadline};

/// Waits until both configurations say whom to trust.
pub async fn wait(cluster: &Cluster, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    for kind in Kind::webhooks() {
        let ours = watcher::Config::default().labels(&format!("app.kubernetes.io/name={}", operator::NAME));
        let mut news = pin!(wait::watch(cluster, kind.api(&cluster.client, None), ours));
        loop {
            let next = deadline.bound(news.next()).await.flatten().transpose()?;
            match next {
                Some(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    if webhook::is_trusted(&object) {
                        break;
                    }
                    ui.progress(&format!(
                        "waiting for the certificate in {}",
                        kind.title(&object.name_any())
                    ));
                }
                Some(_) => {}
                None => return Err(timed_out(&kind, deadline)),
            }
        }
    }
    ui.clear_progress();
    Ok(())
}

fn timed_out(kind: &Kind, deadline: Deadline) -> Error {
    let namespace = crd::OPERATOR_NAMESPACE;
    Error::new(
        ErrorKind::TimedOut,
        format!(
            "after {} the operator has not said by which certificate it answers API servers, so they refuse every app",
            deadline.text()
        ),
    )
    .why(format!("{} has no caBundle", kind.title("appdeploy")))
    .next(format!("kubectl -n {namespace} logs deployment/{}", operator::NAME))
}
