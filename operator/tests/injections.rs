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
        "the command of the Deployment is replaced by one that exits immediately",
        objects::command_is_replaced,
    ),
    (
        "DeploymentScaleZero",
        "the Deployment is scaled to 0",
        objects::scaled_to_nothing,
    ),
    (
        "FinalizerBlock",
        "a finalizer blocks the deletion of the Service, then it is removed",
        objects::finalizer_blocks,
    ),
    (
        "ImageCorrupt",
        "the image of the Deployment is replaced by one that does not exist",
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
        "the namespace is deleted with the app, and both are created again",
        objects::namespace_is_deleted,
    ),
    (
        "NetworkPartition",
        "all traffic is dropped for ten seconds, and watches are cut",
        around::network_is_cut,
    ),
    (
        "OwnerRefOrphan",
        "the owner reference of the Deployment is removed, and a user restores it",
        objects::owner_is_lost,
    ),
    (
        "PDBBlock",
        "a PodDisruptionBudget allows no disruption, and the image of the app is changed",
        objects::budget_blocks,
    ),
    (
        "PodKill",
        "the operator is killed while it works, with its pods",
        around::operator_is_killed,
    ),
    (
        "QuotaExhaustion",
        "a quota allows no more pods, then it is raised",
        objects::quota_is_used_up,
    ),
    (
        "RBACRevoke",
        "all rights of the operator are revoked, then granted again",
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
        "the webhook configuration trusts another CA",
        around::webhook_is_not_trusted,
    ),
    (
        "WebhookLatency",
        "a third-party webhook for Deployments never answers, then it is removed",
        around::webhook_hangs,
    ),
];

#[test]
#[ignore = "takes minutes: make test-long, make recovery"]
fn operator_recovers_from_each_of_twenty_injections() {
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
