//! What is done to make the operator need a right to ServiceAccounts, and what is waited for when it has the right.

use serde_json::{Value, json};

use crate::harness::{DEPLOYMENT, Namespace, SERVICE_ACCOUNT};
use crate::rights::deeds::app_says;

fn spec() -> Value {
    json!({"image": "nginx:1", "replicas": 0, "serviceAccount": {"annotations": {"a.io/role": "x"}}})
}

pub fn make_account(space: &Namespace) {
    space.app("shop", spec());
}

pub fn has_account(space: &Namespace) {
    for kind in [SERVICE_ACCOUNT, DEPLOYMENT] {
        space.until_there(kind, "shop");
    }
    app_says(space, "");
}

pub fn account_is_recreated(space: &Namespace) {
    has_account(space);
    let before = space.get(SERVICE_ACCOUNT, "shop");
    space.delete(SERVICE_ACCOUNT, "shop");
    space.until_back(SERVICE_ACCOUNT, &before);
}

pub fn take_the_name_of_the_account(space: &Namespace) {
    space.create(SERVICE_ACCOUNT, json!({"metadata": {"name": "shop"}}));
    make_account(space);
}

pub fn change_the_account(space: &Namespace) {
    space.settled_app("shop", spec());
    space.set("shop", json!({"serviceAccount": {"annotations": {"a.io/role": "y"}}}));
}

pub fn account_is_changed(space: &Namespace) {
    space.until(SERVICE_ACCOUNT, "shop", "it is changed", |account| {
        account["metadata"]["annotations"]["a.io/role"] == "y"
    });
}

pub fn drop_the_account(space: &Namespace) {
    space.settled_app("shop", spec());
    space.until_there(DEPLOYMENT, "shop");
    // Rolled out, also after the next change.
    space.patch_status(DEPLOYMENT, "shop", json!({"observedGeneration": 1000}));
    space.set("shop", json!({"serviceAccount": null}));
}

pub fn account_is_deleted(space: &Namespace) {
    space.until_gone(SERVICE_ACCOUNT, "shop");
}
