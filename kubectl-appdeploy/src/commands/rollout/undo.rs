//! `kubectl appdeploy undo`: rolls back to an earlier revision.

use crd::{Kind, PodFields};
use serde_json::{Value, json};

use crate::cluster::connection::KubeArgs;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::resource::fields::{pod_of, put};
use crate::resource::revision::{self, Revision};
use crate::resource::schema;
use crate::resource::selection::Selection;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Roll back to the previous revision
  {command} undo {name}

  # Roll back to a specific revision; wait until all pods run it
  {command} history {name}
  {command} undo {name} --to-revision=3 --wait";

/// The flags of `undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the {one}
    name: String,
    /// Revision to roll back to; default: the newest one with another spec that was ready
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    to_revision: Option<u64>,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let app = revision::find(&cluster, &args.name).await?;
    if is_paused(&app) {
        // As kubectl: the running revision, the spec and the previous revision differ then.
        return Err(Error::failed(format!("{} is paused: nothing was changed", app.title()))
            .next(cluster.kind_info().verb("resume", app.name()).and(cluster.flag())));
    }
    let revisions = revision::fetch(&cluster, &app).await?;
    let current = app.pod();
    let target = target(&app.title(), &revisions, args.to_revision, current)
        .map_err(|error| error.next(cluster.kind_info().verb("history", app.name()).and(cluster.flag())))?;
    let which = Selection {
        names: vec![app.name().to_owned()],
        ..Selection::default()
    };
    let verb = Verb {
        example: "undo {name}",
        done: "rolled back",
        subresource: Subresource::None,
        guarded: true,
        edit: &|object| {
            // The revision was chosen by the object that was read.
            if has_changed(kind, object, &app) {
                return Err(Error::failed(format!(
                    "the spec of {} was changed by another client: nothing was changed",
                    app.title()
                ))
                .next(cluster.kind_info().verb("history", app.name()).and(cluster.flag())));
            }
            back(pod_of(kind, object), &target.pod);
            Ok(())
        },
    };
    if args.flags.change.output.is_none() {
        ui.eprintln(&format!("revision {}: image {}", target.number, target.image()));
    }
    change::run(&cluster, &which, args.flags, verb, ui).await
}

fn is_paused(app: &Workload) -> bool {
    match app {
        Workload::App(app) => app.spec.paused,
        Workload::PodSet(set) => set.spec.paused,
    }
}

/// Whether an object was replaced, paused or its pod fields changed since it was read.
fn has_changed(kind: Kind, object: &mut Value, read: &Workload) -> bool {
    let is_same = object["metadata"]["uid"].as_str() == read.meta().uid.as_deref();
    let is_paused = object["spec"]["paused"] == true;
    !is_same || is_paused || is_another(pod_of(kind, object), read.pod())
}

/// Whether the fields of pods in an object are others than these.
fn is_another(object: &Value, fields: &PodFields) -> bool {
    serde_json::from_value::<PodFields>(object.clone()).is_ok_and(|read| read != *fields)
}

/// Returns the revision to go back to from a spec: where nothing has become of it yet, this is the newest one.
fn target<'a>(
    title: &str,
    revisions: &'a [Revision],
    number: Option<u64>,
    current: &PodFields,
) -> Result<&'a Revision> {
    let others = revisions.iter().rev().filter(|one| one.pod != *current);
    let found = match number {
        Some(number) => revisions
            .iter()
            .find(|one| one.number == number)
            .ok_or_else(|| Error::failed(format!("{title} has no revision {number}: nothing was changed"))),
        // While a rollout fails the one before may never have been ready, either.
        None => others
            .clone()
            .find(|one| one.serves())
            .or_else(|| others.clone().find(|one| one.became_ready != Some(false)))
            .ok_or_else(|| match others.clone().next() {
                Some(_) => Error::failed(format!(
                    "{title} has no other revision that was ready: nothing was changed"
                ))
                .why("undo skips revisions that were never ready, --to-revision does not"),
                None => Error::failed(format!(
                    "{title} has no revision with another spec: nothing was changed"
                )),
            }),
    };
    let found = found?;
    if found.left.is_empty() {
        return Ok(found);
    }
    let error = Error::failed(format!(
        "revision {} of {title} has fields that an app does not have: nothing was changed",
        found.number
    ));
    Err(found
        .left
        .iter()
        .take(5)
        .fold(error, |error, path| error.why(path.clone())))
}

/// Replaces the fields of the app by those of a revision, and keeps fields that this plugin does not know.
fn back(pod: &mut Value, fields: &PodFields) {
    let fields = json!(fields);
    for name in schema::pod_fields() {
        put(pod, name, fields.get(name).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use crd::ContainerFields;

    fn runs(image: &str) -> PodFields {
        PodFields {
            container: ContainerFields {
                image: image.to_owned(),
                ..ContainerFields::default()
            },
            ..PodFields::default()
        }
    }

    fn revision(number: u64, left: &[&str]) -> Revision {
        Revision {
            number,
            created: None,
            pod: runs(&format!("shop:{number}")),
            left: left.iter().map(ToString::to_string).collect(),
            restarted: None,
            became_ready: None,
            ready: 0,
            wanted: 0,
        }
    }

    #[test]
    fn previous_or_named_revision_is_the_target() {
        let revisions = [revision(2, &["spec.volumes[data]"]), revision(5, &[]), revision(7, &[])];
        let said = |number, revisions: &[Revision]| match target("shop", revisions, number, &runs("shop:7")) {
            Ok(found) => found.number.to_string(),
            Err(error) => error.text(&RenderOptions::default()),
        };
        let said = [
            said(None, &revisions),
            said(Some(7), &revisions),
            said(Some(3), &revisions),
            said(Some(2), &revisions),
            said(None, &revisions[2..]),
        ];
        insta::assert_snapshot!(said.join("\n"), @r"
        5
        7
        error: shop has no revision 3: nothing was changed
        error: revision 2 of shop has fields that an app does not have: nothing was changed
          why:  spec.volumes[data]
        error: shop has no revision with another spec: nothing was changed
        ");
    }

    #[test]
    fn revision_that_serves_comes_before_one_that_never_became_ready() {
        let serving = Revision {
            ready: 3,
            ..revision(3, &[])
        };
        let number = |revisions: &[Revision]| target("shop", revisions, None, &runs("shop:5")).unwrap().number;
        let failed = [serving.clone(), revision(4, &[]), revision(5, &[])];
        assert_eq!(number(&failed), 3);
        let newest = Revision {
            ready: 3,
            ..revision(5, &[])
        };
        let succeeded = [revision(2, &[]), revision(4, &[]), newest];
        assert_eq!(number(&succeeded), 4);
    }

    #[test]
    fn revision_that_never_became_ready_is_skipped() {
        let recorded = |number, became_ready| Revision {
            became_ready: Some(became_ready),
            ..revision(number, &[])
        };
        let number = |revisions: &[Revision]| target("shop", revisions, None, &runs("shop:5")).unwrap().number;
        assert_eq!(number(&[recorded(3, true), recorded(4, false), recorded(5, false)]), 3);
        assert_eq!(number(&[revision(3, &[]), recorded(4, false), recorded(5, false)]), 3);
    }

    /// After an undo, the only other revision is the broken one.
    #[test]
    fn revision_that_never_became_ready_must_be_named() {
        let recorded = |number, became_ready| Revision {
            became_ready: Some(became_ready),
            ..revision(number, &[])
        };
        let revisions = [recorded(4, false), recorded(5, true)];
        let error = target("shop", &revisions, None, &runs("shop:5")).unwrap_err();
        insta::assert_snapshot!(error.text(&RenderOptions::default()), @r"
        error: shop has no other revision that was ready: nothing was changed
          why:  undo skips revisions that were never ready, --to-revision does not
        ");
        assert_eq!(target("shop", &revisions, Some(4), &runs("shop:5")).unwrap().number, 4);
    }

    /// The operator may be down, or just not have seen the spec.
    #[test]
    fn spec_that_no_pod_runs_yet_goes_back_to_what_runs() {
        let serving = Revision {
            ready: 3,
            ..revision(5, &[])
        };
        let revisions = [revision(2, &[]), revision(4, &[]), serving];
        let number = |current: &str| target("shop", &revisions, None, &runs(current)).unwrap().number;
        assert_eq!(number("shop:broken"), 5);
        assert_eq!(number("shop:5"), 4);
    }

    /// A restart creates a revision with the same spec.
    #[test]
    fn restart_is_not_a_target_of_undo() {
        let restarted = Revision {
            pod: runs("shop:4"),
            ..revision(5, &[])
        };
        let revisions = [revision(2, &[]), revision(4, &[]), restarted];
        let number = target("shop", &revisions, None, &runs("shop:4")).unwrap().number;
        assert_eq!(number, 2);
    }

    #[test]
    fn concurrent_change_of_the_spec_is_detected() {
        let read = runs("shop:1");
        assert!(!is_another(&json!({"image": "shop:1", "replicas": 3}), &read));
        assert!(is_another(&json!({"image": "shop:2"}), &read));
    }

    #[test]
    fn only_the_object_that_was_read_is_changed() {
        let object = |uid: &str, image: &str, paused: bool| {
            json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": {"name": "shop", "uid": uid},
                "spec": {"image": image, "paused": paused}})
        };
        let read = Workload::App(serde_json::from_value(object("1", "a", false)).unwrap());
        let changed =
            |uid: &str, image: &str, paused| has_changed(Kind::AppDeploy, &mut object(uid, image, paused), &read);
        assert!(!changed("1", "a", false));
        assert!(changed("2", "a", false) && changed("1", "b", false) && changed("1", "a", true));
    }

    #[test]
    fn new_fields_of_pods_are_removed_and_other_fields_stay() {
        let mut app = json!({"image": "b", "env": [], "replicas": 3, "new": 1});
        let mut fields = runs("a");
        fields.container.port = Some(80);
        back(&mut app, &fields);
        assert_eq!(app, json!({"image": "a", "port": 80, "replicas": 3, "new": 1}));
    }
}
