//! Fields of Deployments that other managers added.

use model::children::DEPLOYMENT;
use model::spec_reader::Additions;

use super::{Store, Stores};
use crate::key::Key;

impl Stores {
    /// Returns what other managers added to the Deployment of an application with this UID.
    ///
    /// What cannot be listed is unknown. A Deployment that is not in a complete cache does not exist or is not ours, so
    /// nothing of the application runs there and nothing was added: an author can correct an app whose Deployment was
    /// never created.
    #[must_use]
    pub fn additions(&self, app: &Key, uid: Option<&str>) -> Additions {
        let Store { cache, health, .. } = &**self.children.of(&DEPLOYMENT);
        let blind = health.unseen(&app.namespace);
        if let Some(why) = blind.or_else(|| health.outdated(Some(&app.namespace))) {
            return Additions::Unknown(why.into());
        }
        let ours = cache
            .get(app)
            .filter(|child| uid.is_none_or(|uid| child.is_controlled_by(uid)));
        let additions = ours.and_then(|child| Some(child.rollout()?.additions.clone()));
        additions.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use model::Child;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::cache::Item;

    fn stores() -> Stores {
        let stores = Stores::default();
        stores.children.of(&DEPLOYMENT).health.listed(None, Instant::now());
        stores
    }

    fn deployment(stores: &Stores, owner: &str) {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "annotations": {"appdeploy.dev/revision-spec": "{\"image\":\"nginx\"}"},
            "ownerReferences": [{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop",
                "uid": owner, "controller": true}]}))
        .unwrap();
        let data = json!({"spec": {"template": {"spec": {"volumes": [{"name": "keys"}]}}}});
        let key = Key::new("blue", "shop");
        stores.children.of(&DEPLOYMENT).cache.upsert(Item {
            owners: [key.clone()].into(),
            key,
            version: "1".to_owned(),
            value: Child::read(&DEPLOYMENT, &meta, &data).into(),
        });
    }

    #[test]
    fn additions_are_those_of_the_deployment_that_the_app_owns() {
        let (stores, app) = (stores(), Key::new("blue", "shop"));
        deployment(&stores, "u1");
        assert_eq!(
            stores.additions(&app, Some("u1")),
            Additions::Fields("spec.template.spec.volumes[keys]".into())
        );
        assert_eq!(
            stores.additions(&app, Some("u2")),
            Additions::None,
            "nothing of the app runs there"
        );
    }

    #[test]
    fn missing_deployment_in_a_complete_cache_has_no_additions() {
        assert_eq!(
            stores().additions(&Key::new("blue", "shop"), Some("u1")),
            Additions::None
        );
    }

    #[test]
    fn additions_of_unlisted_deployments_are_unknown() {
        let stores = Stores::default();
        deployment(&stores, "u1");
        let found = stores.additions(&Key::new("blue", "shop"), Some("u1"));
        assert_eq!(found, Additions::Unknown("not listed yet".into()));
    }
}
