//! Twenty ways to disturb an operator, its objects and its cluster, by the names that chaos tests for operators give them:
//! each is done, ends, and is recovered from. How long that takes is written into docs/faults.md by `make recovery`, and
//! asserted nowhere. All of it takes minutes.
//!
//! The cluster has a scheduler, the controllers of Kubernetes and a fake node, so apps become ready.

mod around;
mod objects;
mod stage;
mod times;

use stage::Stage;

/// One way: its name, what is done, and what then has to be so. It returns the time from its end until all is right again.
type Injection = (&'static str, &'static str, fn(&Stage) -> std::time::Duration);

/// In the order of their names.
const INJECTIONS: [Injection; 20] = [
    (
        "CRDMutation",
        "the app's port is changed, and changed back",
        objects::app_is_changed,
    ),
    (
        "ClientFault",
        "half of all requests fail, for five seconds",
        around::requests_fail,
    ),
    (
        "ConfigDrift",
        "the Service's port is changed by hand",
        objects::port_drifts,
    ),
    (
        "CrashLoopInject",
        "the Deployment is given a command that ends at once",
        objects::command_is_replaced,
    ),
    (
        "DeploymentScaleZero",
        "the Deployment is scaled to nothing",
        objects::scaled_to_nothing,
    ),
    (
        "FinalizerBlock",
        "a finalizer holds the Service that is deleted, then not any more",
        objects::finalizer_blocks,
    ),
    (
        "ImageCorrupt",
        "the Deployment is given an image that does not exist",
        objects::image_is_replaced,
    ),
    (
        "LabelStomping",
        "the labels of all children are overwritten",
        objects::labels_are_overwritten,
    ),
    (
        "LeaderElectionDisrupt",
        "the Lease is deleted",
        around::lease_is_deleted,
    ),
    (
        "NamespaceDeletion",
        "the namespace is deleted with the app, and both are made anew",
        objects::namespace_is_deleted,
    ),
    (
        "NetworkPartition",
        "nothing gets through for ten seconds, and watches are cut",
        around::network_is_cut,
    ),
    (
        "OwnerRefOrphan",
        "the Deployment loses its owner, and a person puts it back",
        objects::owner_is_lost,
    ),
    (
        "PDBBlock",
        "a disruption budget allows none, and the app is given another image",
        objects::budget_blocks,
    ),
    (
        "PodKill",
        "the operator is killed with work under way, and its pods with it",
        around::operator_is_killed,
    ),
    (
        "QuotaExhaustion",
        "a quota allows no more pods, then it is raised",
        objects::quota_is_used_up,
    ),
    (
        "RBACRevoke",
        "the operator loses all of its rights, and gets them back",
        around::rights_are_revoked,
    ),
    (
        "ResourceDeletion",
        "all children are deleted",
        objects::children_are_deleted,
    ),
    (
        "SecretDeletion",
        "the Secret with the webhook's certificate is deleted",
        around::certificate_is_deleted,
    ),
    (
        "WebhookDisrupt",
        "the webhook configuration trusts another authority",
        around::webhook_is_not_trusted,
    ),
    (
        "WebhookLatency",
        "a webhook of others never answers for Deployments, then it is removed",
        around::webhook_hangs,
    ),
];

#[test]
#[ignore = "takes minutes: make test-long, make recovery"]
fn each_of_twenty_injections_is_recovered_from() {
    let stage = Stage::start();
    let mut times = Vec::new();
    for (name, deed, inject) in INJECTIONS {
        eprintln!("{name} …");
        let took = inject(&stage);
        eprintln!("{name}: {took:?}");
        stage.is_well();
        times.push(times::Recovery { name, deed, took });
    }
    times::write(&times);
}
