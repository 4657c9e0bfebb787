//! `kubectl appdeploy edit`: opens the object in an editor until it is valid.

mod editor;
mod file;

use crd::Kind;
use kube::api::DynamicObject;
use model::export::remove_server_set;
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::{interrupt, kind_info};
use crate::commands::change::{self, Flags, Subresource, UNCHANGED, between};
use crate::error::{Error, Kind as Ending, Result};
use crate::output::formats::{self, Done, DryRun};
use crate::output::yaml;
use crate::resource::{schema, selection, validation};
use crate::terminal::ui::{RenderOptions, Ui};

use file::File;

const EXAMPLES: &str = "\
Examples:
  # Edit in $KUBE_EDITOR, $EDITOR or vi; an invalid spec is opened again
  {command} edit {name}

  # Wait until the change is rolled out
  {command} edit {name} --wait";

/// The flags of `edit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the {one}
    name: String,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let name = selection::name(kind, &args.name)?;
    let object = cluster.get(name).await?;
    let before = editable(&object);
    let file = File::new(name)?;
    match until_written(&args, &cluster, &object, &before, &file).await {
        Ok(Some(done)) => {
            file.remove();
            change::conclude(&cluster, None, args.flags, &[done], Vec::new(), ui).await
        }
        Ok(None) => {
            file.remove();
            ui.eprintln("Edit cancelled, no changes made.");
            Ok(())
        }
        Err(error) if file.is_as_shown(&before)? => {
            file.remove();
            Err(error)
        }
        // The edited text must not be lost.
        Err(error) => Err(error.why(format!("your changes are kept in {}", file.path().display()))),
    }
}

/// Opens the file until its content could be written; `None` if it was not changed.
async fn until_written(
    args: &Args,
    cluster: &Cluster,
    object: &DynamicObject,
    before: &Value,
    file: &File,
) -> Result<Option<Done>> {
    let mut shown = file::page(&yaml::write(before)?, None);
    let mut problem: Option<Error> = None;
    let again = cluster.kind_info().verb("edit", &args.name).and(cluster.flag());
    loop {
        file.write(&shown)?;
        interrupt::left_to_child(|| editor::open(file.path(), &again)).await?;
        let text = file.read()?;
        if text == shown || file::is_empty(&text) {
            return match problem {
                Some(error) => Err(error),
                None => Ok(None),
            };
        }
        match write(args, cluster, object, before, &text).await {
            Ok(done) => return Ok(done),
            // The user can correct it.
            Err(error) if error.kind() == Ending::Usage || error.is_refusal() => {
                shown = file::page(&file::without_head(&text), Some(&error.text(&RenderOptions::default())));
                problem = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Writes what differs, if it is valid; nothing if nothing differs.
async fn write(
    args: &Args,
    cluster: &Cluster,
    object: &DynamicObject,
    before: &Value,
    text: &str,
) -> Result<Option<Done>> {
    let after = read(cluster.kind, before, text)?;
    let Some(patch) = between(before, &after) else {
        return Ok(None);
    };
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let mut done = Done {
        title: cluster.title(name),
        word: "edited",
        is_held: change::is_held(cluster.kind, before, &after),
        object: after,
    };
    if args.flags.change.dry_run == DryRun::Client {
        return Ok(Some(done));
    }
    let written = send(args, cluster, object, before, patch).await?;
    if let Some(written) = written {
        if args.flags.change.dry_run.is_real() && written.metadata.resource_version == object.metadata.resource_version
        {
            done.word = UNCHANGED;
        }
        done.object = formats::presentable(&kind_info::complete(cluster.kind, written));
    }
    Ok(Some(done))
}

/// Writes a patch to the object that was opened, unless it has changed since it was shown. A status that was written in
/// between does not count.
async fn send(
    args: &Args,
    cluster: &Cluster,
    object: &DynamicObject,
    before: &Value,
    mut patch: Value,
) -> Result<Option<DynamicObject>> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let mut version = object.metadata.resource_version.clone();
    for again in 1.. {
        patch["metadata"]["uid"] = json!(object.metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(version);
        let sent = cluster.attempt(change::write(cluster, args.flags, Subresource::None, name, &patch));
        match sent.await? {
            Ok(written) => return Ok(written),
            Err(kube::Error::Api(status)) if status.is_conflict() && again < change::TRIES => {}
            Err(source) => return Err(cluster.explain(source)),
        }
        let now = cluster.get(name).await?;
        if now.metadata.uid != object.metadata.uid || editable(&now) != *before {
            break;
        }
        version = now.metadata.resource_version;
    }
    let title = cluster.title(name);
    Err(
        Error::failed(format!("{title} has changed since it was opened: nothing was changed"))
            .next(cluster.kind_info().verb("edit", name).and(cluster.flag())),
    )
}

/// Returns the part of an object that a user can change.
fn editable(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    remove_server_set(&mut value);
    value
}

/// Reads the edited text, which must be a valid object of the same name.
fn read(kind: Kind, before: &Value, text: &str) -> Result<Value> {
    let wrong = |why: String| Error::usage("the object is invalid: nothing was changed").why(why);
    let documents = yaml::read(text).map_err(|error| wrong(error.sentence().to_owned()))?;
    let [after] = documents.as_slice() else {
        return Err(wrong("the file must have one document, the edited object".to_owned()));
    };
    let identity = [
        ("apiVersion", "/apiVersion"),
        ("kind", "/kind"),
        ("metadata.name", "/metadata/name"),
        ("metadata.namespace", "/metadata/namespace"),
    ];
    if let Some((field, _)) = identity.iter().find(|(_, at)| before.pointer(at) != after.pointer(at)) {
        return Err(wrong(format!("{field} can't be changed: it identifies the object")));
    }
    let problems = schema::problems(kind, after);
    if !problems.is_empty() {
        let error = Error::usage("the object is invalid: nothing was changed");
        return Err(problems.into_iter().fold(error, Error::why));
    }
    validation::object(kind, after)?;
    Ok(after.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a", "uid": "u", "resourceVersion": "7", "generation": 2,
                "managedFields": [], "labels": {"team": "x"}},
            "spec": {"image": "nginx:1", "replicas": 1}, "status": {"url": "x"}}))
        .unwrap()
    }

    #[test]
    fn editable_fields_are_shown() {
        insta::assert_snapshot!(yaml::write(&editable(&shop())).unwrap(), @r"
        apiVersion: appdeploy.dev/v1alpha1
        kind: AppDeploy
        metadata:
          labels:
            team: x
          name: shop
          namespace: a
        spec:
          image: nginx:1
          replicas: 1
        ");
    }

    #[test]
    fn invalid_edit_is_reported() {
        let before = editable(&shop());
        let text = yaml::write(&before).unwrap();
        let said = [
            text.replace("nginx:1", "nginx:2"),
            text.replace("name: shop", "name: blog"),
            text.replace("image", "imgae"),
            text.replace("nginx:1", "Nginx 1"),
            text.replace("spec:", "spec"),
            format!("{text}---\n{text}"),
        ]
        .map(|text| match read(Kind::AppDeploy, &before, &text) {
            Ok(after) => after["spec"].to_string(),
            Err(error) => error.text(&RenderOptions::default()),
        });
        insta::assert_snapshot!(said.join("\n"), @r#"
        {"image":"nginx:2","replicas":1}
        error: the object is invalid: nothing was changed
          why:  metadata.name can't be changed: it identifies the object
        error: the object is invalid: nothing was changed
          why:  spec.image: required field is missing
          why:  spec.imgae: unknown field; did you mean image?
        error: appdeploy.appdeploy.dev/shop is invalid: nothing was changed
          why:  spec.image: an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4
        error: the object is invalid: nothing was changed
          why:  cannot read YAML: line 8 column 1: simple key expected ':'
        error: the object is invalid: nothing was changed
          why:  the file must have one document, the edited object
        "#);
    }
}
