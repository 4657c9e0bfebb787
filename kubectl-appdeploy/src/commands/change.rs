//! Common steps of all commands that change existing objects: select, change, write, print and
//! wait. A command adds its flags and a function that changes one object.

pub mod creation;
pub mod deletion;
mod patch;

use std::time::Duration;

use crd::Kind;
use crd::annotation::RESTARTED_AT;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::kind_info::KindInfo;
use crate::cluster::wait::Deadline;
use crate::diagnosis::readiness;
use crate::error::{Error, Result};
use crate::output::duration;
use crate::output::formats::{self, ChangeArgs, Done, DryRun};
use crate::resource::selection::{self, Selection};
use crate::resource::{schema, validation};
use crate::terminal::ui::Ui;

pub use patch::between;

/// How often a change is computed again after a conflict.
pub const TRIES: usize = 4;

/// The flags that every change has.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Flags {
    /// Wait until the {many} are ready; exit code 3 if one will not become ready without a change, 4 on timeout
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, action = clap::ArgAction::Set, hide_possible_values = true
    )]
    pub wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    pub timeout: Duration,
    #[command(flatten)]
    pub change: ChangeArgs,
}

impl Flags {
    /// Returns the flags of a change after which there is nothing to wait for.
    pub const fn without_wait(change: ChangeArgs) -> Self {
        Self {
            wait: false,
            timeout: Duration::ZERO,
            change,
        }
    }
}

/// The subresource that a change is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// By a patch of what differs.
    None,
    /// By the scale subresource, which is the least right that suffices, and what an autoscaler uses.
    Scale,
}

/// A command that changes objects.
pub struct Verb<'a> {
    /// How to write it for one object, for who named none, like `scale {name} --replicas=3`.
    pub example: &'static str,
    /// The word for an object that was changed, as in kubectl: `scaled`.
    pub done: &'static str,
    /// The subresource that a change is written to.
    pub subresource: Subresource,
    /// Whether the write must fail if the object was changed after it was read. This is always the case for lists.
    pub guarded: bool,
    /// Changes an object. Depends only on the object.
    pub edit: &'a dyn Fn(&mut Value) -> Result<()>,
}

/// Runs a command on all selected objects: a failure does not stop the others.
pub async fn run(cluster: &Cluster, which: &Selection, flags: Flags, verb: Verb<'_>, ui: &mut Ui) -> Result<()> {
    let found = which.resolve(cluster, verb.example).await?;
    if found.is_empty() {
        selection::nothing(cluster, ui);
    }
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for object in found {
        match one(cluster, flags, &verb, object).await {
            Ok(one) => done.push(one),
            Err(error) => failures.push(error),
        }
    }
    conclude(cluster, which.selector.as_deref(), flags, &done, failures, ui).await
}

/// Prints the changed objects, waits with `--wait`, and reports failures.
pub async fn conclude(
    cluster: &Cluster,
    selector: Option<&str>,
    flags: Flags,
    done: &[Done],
    mut failures: Vec<Error>,
    ui: &mut Ui,
) -> Result<()> {
    flags.change.print_results(ui, done)?;
    if !failures.is_empty() && !flags.wait {
        return selection::conclude(failures, ui);
    }
    let deadline = Deadline::after(flags.timeout);
    failures.extend(follow(cluster, selector, flags, done, deadline, ui).await);
    selection::conclude(failures, ui)
}

/// Waits for changed objects if the flags ask for it, and otherwise prints how to wait. Returns the objects that did not become
/// ready.
pub async fn follow(
    cluster: &Cluster,
    selector: Option<&str>,
    flags: Flags,
    done: &[Done],
    deadline: Deadline,
    ui: &mut Ui,
) -> Vec<Error> {
    let mut failures = Vec::new();
    if flags.change.dry_run.is_real() {
        for one in done.iter().filter(|one| one.is_held) {
            let name = one.name();
            ui.warn(&format!(
                "{name} is paused: nothing is rolled out until {}",
                cluster.kind_info().verb("resume", name).and(cluster.flag())
            ));
        }
        if flags.wait {
            let all: Vec<readiness::Target> = done.iter().map(|one| readiness::Target::of(&one.object)).collect();
            failures.extend(readiness::all(cluster, &all, selector, deadline, ui).await);
        } else if let ([one], None) = (done, flags.change.output)
            && one.word != UNCHANGED
        {
            ui.next(cluster.kind_info().verb("status", one.name()).and(cluster.flag()));
        }
    }
    failures
}

/// The word for an object that was as it should be.
pub const UNCHANGED: &str = "unchanged";

/// Whether a change waits for a `resume`. A paused app keeps its pods, but is scaled, for example.
pub fn is_held(kind: impl Into<&'static KindInfo>, before: &Value, after: &Value) -> bool {
    let Some(kind) = kind.into().workload else {
        return false;
    };
    let pods = |object: &Value| -> Vec<Value> {
        let pod = match kind {
            Kind::AppDeploy => &object["spec"],
            Kind::PodSet => &object["spec"]["template"],
        };
        let restart = &object["metadata"]["annotations"][RESTARTED_AT];
        let fields = schema::pod_fields().map(|field| pod[field].clone());
        fields.chain([restart.clone()]).collect()
    };
    after["spec"]["paused"] == true && pods(before) != pods(after)
}

/// Changes one object.
pub async fn one(cluster: &Cluster, flags: Flags, verb: &Verb<'_>, object: Result<DynamicObject>) -> Result<Done> {
    let mut object = object?;
    let name = object.name_any();
    for again in 1.. {
        let (wanted, patch) = plan(cluster.kind_info(), verb, &object)?;
        let mut done = Done {
            title: cluster.title(&name),
            word: verb.done,
            is_held: is_held(cluster.kind_info(), &formats::presentable(&object), &wanted),
            object: wanted,
        };
        let Some(patch) = patch else {
            done.word = UNCHANGED;
            return Ok(done);
        };
        if flags.change.dry_run == DryRun::Client {
            return Ok(done);
        }
        match cluster
            .attempt(write(cluster, flags, verb.subresource, &name, &patch))
            .await?
        {
            Ok(Some(written)) => done.object = formats::presentable(&written),
            // The scale subresource gives back a scale.
            Ok(None) if flags.change.output.is_some() && flags.change.dry_run.is_real() => {
                let written = cluster.get(&name).await?;
                done.object = formats::presentable(&written);
            }
            Ok(None) => {}
            // Another client wrote in between.
            Err(kube::Error::Api(status)) if status.is_conflict() && again < TRIES => {
                object = cluster.get(&name).await?;
                continue;
            }
            Err(source) => return Err(cluster.explain(source)),
        }
        return Ok(done);
    }
    Err(Error::failed(format!("{} changes all the time", cluster.title(&name))))
}

/// Returns the changed object and the patch; `None` if nothing changes.
fn plan(kind: impl Into<&'static KindInfo>, verb: &Verb<'_>, object: &DynamicObject) -> Result<(Value, Option<Value>)> {
    let before = formats::presentable(object);
    let mut wanted = before.clone();
    (verb.edit)(&mut wanted)?;
    let Some(mut patch) = between(&before, &wanted) else {
        return Ok((wanted, None));
    };
    validation::change(kind, &before, &wanted)?;
    if verb.guarded {
        patch["metadata"]["resourceVersion"] = json!(object.resource_version());
    }
    Ok((wanted, Some(guarded(patch, object))))
}

/// Adds the resource version to a patch that replaces a list, so that it replaces only the list that was read.
pub fn guarded(mut patch: Value, object: &DynamicObject) -> Value {
    if patch::replaces_a_list(&patch, &formats::presentable(object)) {
        patch["metadata"]["resourceVersion"] = json!(object.resource_version());
    }
    patch
}

/// Writes a patch. Gives back the object, unless it went through the scale subresource.
pub async fn write(
    cluster: &Cluster,
    flags: Flags,
    subresource: Subresource,
    name: &str,
    patch: &Value,
) -> kube::Result<Option<DynamicObject>> {
    let api = cluster.objects(Some(&cluster.namespace));
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        dry_run: flags.change.dry_run == DryRun::Server,
        // A field that the server's schema is too old for is refused instead of dropped.
        field_validation: (subresource == Subresource::None).then_some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    match subresource {
        Subresource::None => api.patch(name, &params, &Patch::Merge(patch)).await.map(Some),
        Subresource::Scale => api.patch_scale(name, &params, &Patch::Merge(patch)).await.map(|_| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::fields::put;
    use crate::terminal::ui::RenderOptions;

    fn object() -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a", "resourceVersion": "7"},
            "spec": {"image": "nginx:1", "replicas": 2, "new": {"field": 1}, "env": [{"name": "A", "value": "b"}]}}))
        .unwrap()
    }

    fn planned(guarded: bool, edit: &dyn Fn(&mut Value) -> Result<()>) -> Result<Option<Value>> {
        let verb = Verb {
            example: "",
            done: "changed",
            subresource: Subresource::None,
            guarded,
            edit,
        };
        plan(Kind::AppDeploy, &verb, &object()).map(|(_, patch)| patch)
    }

    #[test]
    fn patch_has_only_differences() {
        let image = |image: &'static str| {
            move |object: &mut Value| -> Result<()> {
                object["spec"]["image"] = json!(image);
                Ok(())
            }
        };
        assert_eq!(
            planned(false, &image("nginx:2")),
            Ok(Some(json!({"spec": {"image": "nginx:2"}})))
        );
        assert_eq!(planned(false, &image("nginx:1")), Ok(None));
        assert_eq!(
            planned(true, &image("nginx:2")),
            Ok(Some(
                json!({"metadata": {"resourceVersion": "7"}, "spec": {"image": "nginx:2"}})
            ))
        );
        // A patch replaces a whole list, so it must be the list that was read.
        let patch = planned(false, &|object| {
            object["spec"]["env"] = json!([]);
            Ok(())
        });
        assert_eq!(
            patch,
            Ok(Some(json!({"metadata": {"resourceVersion": "7"}, "spec": {"env": []}})))
        );
        // So it must be where the list goes with its last item.
        let patch = planned(false, &|object| {
            put(&mut object["spec"], "env", None);
            Ok(())
        });
        assert_eq!(
            patch,
            Ok(Some(
                json!({"metadata": {"resourceVersion": "7"}, "spec": {"env": null}})
            ))
        );
    }

    #[test]
    fn pause_holds_back_only_changes_of_pods() {
        let app = |replicas: i32, image: &str, restart: &str, paused: bool| {
            json!({"metadata": {"annotations": {RESTARTED_AT: restart}},
                "spec": {"image": image, "replicas": replicas, "paused": paused}})
        };
        let before = app(1, "a", "x", true);
        let is_held = |after: Value| is_held(Kind::AppDeploy, &before, &after);
        assert!(is_held(app(1, "b", "x", true)) && is_held(app(1, "a", "y", true)));
        assert!(!is_held(app(2, "a", "x", true)) && !is_held(app(1, "b", "x", false)));
        let set = |image: &str| json!({"spec": {"paused": true, "template": {"image": image}}});
        assert!(super::is_held(Kind::PodSet, &set("a"), &set("b")));
    }

    #[test]
    fn rules_that_were_broken_before_do_not_reject_a_change() {
        let mut stored = object();
        stored.data["spec"]["host"] = json!("shop.example.com");
        let scale = |object: &mut Value| -> Result<()> {
            object["spec"]["replicas"] = json!(0);
            Ok(())
        };
        let verb = Verb {
            example: "",
            done: "scaled",
            subresource: Subresource::Scale,
            guarded: false,
            edit: &scale,
        };
        let (_, patch) = plan(Kind::AppDeploy, &verb, &stored).unwrap();
        assert_eq!(patch, Some(json!({"spec": {"replicas": 0}})));
    }

    #[test]
    fn invalid_change_is_not_sent() {
        let error = planned(false, &|object| {
            object["spec"]["image"] = json!("Nginx latest");
            Ok(())
        });
        insta::assert_snapshot!(error.unwrap_err().text(&RenderOptions::default()), @r"
        error: appdeploy.appdeploy.dev/shop is invalid: nothing was changed
          why:  spec.image: an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4
        ");
    }
}
