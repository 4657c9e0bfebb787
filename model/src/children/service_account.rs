//! The ServiceAccount of an app whose spec has annotations for it: the identity of its pods, in the cluster and in a cloud.

use serde_json::{Value, json};

use super::{ChildKind, Prune};
use crate::Valid;
use crate::desired::{finish, meta};

/// The ServiceAccount of an app that does not name an existing one.
pub static SERVICE_ACCOUNT: ChildKind = ChildKind {
    // Nothing but metadata: other managers add pull secrets.
    digest: &[],
    // The pods of the previous revision use it until they end.
    prune: Prune::AfterRollout,
    on_request: true,
    ..ChildKind::new(["", "v1", "ServiceAccount", "serviceaccounts"], render)
};

fn render(app: &Valid<'_>) -> Vec<Value> {
    let account = app.pod.service_account.as_ref();
    let Some(annotations) = account.and_then(|account| account.annotations.as_ref()) else {
        return Vec::new();
    };
    let mut meta = meta(app);
    meta.annotations = Some(annotations.clone());
    vec![finish(&SERVICE_ACCOUNT, &json!({"metadata": meta}))]
}
