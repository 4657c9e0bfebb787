//! Reads the ServiceAccount of an app from the live one.

use std::collections::BTreeMap;

use crd::annotation::LAST_APPLIED;
use crd::{ServiceAccount, label};
use serde_json::Value;

use crate::export::BOOKKEEPING;
use crate::valid::is_annotation;

/// Replaces the name of a ServiceAccount by its annotations, if it is the app's own one: it has the name of the app, and its
/// label. Another one stays a third-party object that the app names.
pub(super) fn read(account: &mut ServiceAccount, app: &str, live: Option<&Value>) {
    let Some(live) = live.filter(|_| account.name.as_deref() == Some(app)) else {
        return;
    };
    let own = live["metadata"]["annotations"].as_object().into_iter().flatten();
    let own = own.filter(|(key, _)| !BOOKKEEPING.contains(&key.as_str()) && *key != LAST_APPLIED);
    let annotations: BTreeMap<String, String> = own
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    if live["metadata"]["labels"][label::APP] == app && annotations.keys().all(|key| is_annotation(key)) {
        *account = ServiceAccount {
            name: None,
            annotations: Some(annotations),
        };
    }
}
