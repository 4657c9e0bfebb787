//! A validated document of a file.

use crd::Kind;
use model::command;
use model::export::{remove_annotations, remove_server_set};
use serde_json::Value;

use super::manifest_file::Document;
use crate::cluster::kind_info::{self, KindInfo};
use crate::error::{Error, Result};
use crate::resource::strip_defaults::RECORDS;
use crate::resource::{schema, validation};

/// An app, a pod set or a queue of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Which of them.
    pub kind: &'static KindInfo,
    /// Where it is to be.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object to send.
    pub object: Value,
}

impl Manifest {
    /// Reads a document. `asked` is the namespace of `-n`, `usual` the one without the flag.
    pub fn of(document: Document, asked: Option<&str>, usual: &str) -> Result<Self> {
        let Document {
            place,
            command,
            mut value,
        } = document;
        // A null is the same as a missing field.
        drop_nothing(&mut value);
        let refuse = |what: &str| Error::usage(format!("{place}: {what}: nothing was done"));
        let kind = kind(&value).ok_or_else(|| {
            let (Some(kind), Some(version)) = (value["kind"].as_str(), value["apiVersion"].as_str()) else {
                return refuse("kind and apiVersion are missing")
                    .why(format!(
                        "an app starts with apiVersion: {}/{} and kind: {}",
                        crd::GROUP,
                        crd::VERSION,
                        Kind::AppDeploy.as_str()
                    ))
                    .next(
                        "kubectl appdeploy create shop --image=nginx --port=80 --dry-run=client -o yaml  (shows one)",
                    );
            };
            refuse(&format!("{kind} of {version} is not an app, a pod set or a queue"))
                .why("kubectl applies objects of every kind")
                .next(command.clone())
        })?;
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(refuse("metadata.name is missing"));
        }
        let problems = schema::problems(kind, &value);
        if !problems.is_empty() {
            let error = refuse(&format!("{} is invalid", kind_info::title(kind, &name)));
            return Err(problems
                .into_iter()
                .fold(error, Error::why)
                .next(command!("kubectl explain {}.spec", kind.names.singular)));
        }
        let own = value["metadata"]["namespace"].as_str();
        let namespace = match (own, asked) {
            (Some(own), Some(asked)) if own != asked => {
                return Err(refuse(&format!(
                    "{} is in namespace {own}, but -n is {asked}",
                    kind_info::title(kind, &name)
                ))
                .next("remove -n, or the namespace in the file"));
            }
            (own, asked) => own.or(asked).unwrap_or(usual).to_owned(),
        };
        let mut object = value;
        let problems = validation::problems(kind, &object);
        if !problems.is_empty() {
            let error = refuse(&format!("{} is invalid", kind_info::title(kind, &name)));
            return Err(problems.into_iter().fold(error, Error::why));
        }
        object["metadata"]["namespace"] = namespace.clone().into();
        remove_server_set(&mut object);
        remove_annotations(&mut object, &RECORDS);
        Ok(Self {
            kind,
            namespace,
            name,
            object,
        })
    }
}

fn drop_nothing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nothing);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nothing),
        _ => {}
    }
}

fn kind(value: &Value) -> Option<&'static KindInfo> {
    let version = format!("{}/{}", crd::GROUP, crd::VERSION);
    let is_ours = value["apiVersion"] == version;
    kind_info::ALL
        .into_iter()
        .find(|kind| is_ours && value["kind"] == kind.names.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use serde_json::json;

    fn read(value: Value, asked: Option<&str>) -> Result<Manifest> {
        let document = Document {
            place: "shop.yaml".to_owned(),
            command: "kubectl apply -f shop.yaml".into(),
            value,
        };
        Manifest::of(document, asked, "default")
    }

    fn app(metadata: Value, spec: Value) -> Value {
        json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": metadata, "spec": spec, "status": {"url": "x"}})
    }

    #[test]
    fn server_set_fields_are_dropped() {
        let metadata = json!({"name": "shop", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}});
        let manifest = read(app(metadata, json!({"image": "nginx"})), Some("a")).unwrap();
        assert_eq!(
            manifest.object,
            json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
                "metadata": {"name": "shop", "namespace": "a", "labels": {"a": "b"}}, "spec": {"image": "nginx"}})
        );
    }

    #[test]
    fn annotation_of_a_restart_is_dropped_and_an_owner_is_kept() {
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]);
        let saved = |annotations: Value| {
            let metadata = json!({"name": "shop", "ownerReferences": owners, "annotations": annotations});
            read(app(metadata, json!({"image": "nginx"})), None).unwrap().object["metadata"].take()
        };
        let noted = json!({"appdeploy.dev/restarted-at": "2026-01-01T00:00:00Z",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"});
        let plain = json!({"name": "shop", "namespace": "default", "ownerReferences": owners});
        assert_eq!(saved(noted), plain);
        assert_eq!(saved(json!({"a": "b"}))["annotations"], json!({"a": "b"}));
    }

    #[test]
    fn null_is_the_same_as_a_missing_field() {
        let spec = json!({"image": "nginx", "replicas": null, "resources": {"limits": null}, "env": [{"name": "A", "value": null}]});
        let manifest = read(app(json!({"name": "shop", "labels": null}), spec), None).unwrap();
        assert_eq!(
            manifest.object["spec"],
            json!({"image": "nginx", "resources": {}, "env": [{"name": "A"}]})
        );
        let error = read(app(json!({"name": "shop"}), json!({"image": null})), None).unwrap_err();
        assert!(
            error.reasons().contains("spec.image: required field is missing"),
            "{}",
            error.reasons()
        );
    }

    #[test]
    fn invalid_document_is_reported_with_its_place() {
        let said = [
            read(
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}),
                None,
            ),
            read(json!({"apiVersion": "appdeploy.dev/v2", "kind": "AppDeploy"}), None),
            read(json!("text"), None),
            read(app(json!({}), json!({"image": "nginx"})), None),
            read(
                app(json!({"name": "shop", "namespace": "a"}), json!({"image": "nginx"})),
                Some("b"),
            ),
            read(
                app(
                    json!({"name": "shop"}),
                    json!({"image": "nginx", "prot": 80, "volume": 1}),
                ),
                None,
            ),
            read(
                app(json!({"name": "shop"}), json!({"image": "nginx", "host": "a.b"})),
                None,
            ),
            read(
                app(json!({"name": "shop"}), json!({"image": "nginx", "replicas": "two"})),
                None,
            ),
            read(app(json!({"name": "shop"}), json!({"port": 80})), None),
        ];
        let said = said.map(|read| read.unwrap_err().text(&RenderOptions::default()));
        insta::assert_snapshot!(said.join("\n"), @r"
        error: shop.yaml: Service of v1 is not an app, a pod set or a queue: nothing was done
          why:  kubectl applies objects of every kind
          next: kubectl apply -f shop.yaml
        error: shop.yaml: AppDeploy of appdeploy.dev/v2 is not an app, a pod set or a queue: nothing was done
          why:  kubectl applies objects of every kind
          next: kubectl apply -f shop.yaml
        error: shop.yaml: kind and apiVersion are missing: nothing was done
          why:  an app starts with apiVersion: appdeploy.dev/v1alpha1 and kind: AppDeploy
          next: kubectl appdeploy create shop --image=nginx --port=80 --dry-run=client -o yaml
                (shows one)
        error: shop.yaml: metadata.name is missing: nothing was done
        error: shop.yaml: appdeploy.appdeploy.dev/shop is in namespace a, but -n is b: nothing was done
          next: remove -n, or the namespace in the file
        error: shop.yaml: appdeploy.appdeploy.dev/shop is invalid: nothing was done
          why:  spec.prot: unknown field; did you mean port?
          why:  spec.volume: unknown field; did you mean volumes?
          next: kubectl explain appdeploy.spec
        error: shop.yaml: appdeploy.appdeploy.dev/shop is invalid: nothing was done
          why:  spec: host, path, ingressClassName and tls need a port to lead to: set spec.port, or remove them
        error: shop.yaml: appdeploy.appdeploy.dev/shop is invalid: nothing was done
          why:  spec.replicas: must be a whole number
          next: kubectl explain appdeploy.spec
        error: shop.yaml: appdeploy.appdeploy.dev/shop is invalid: nothing was done
          why:  spec.image: required field is missing
          next: kubectl explain appdeploy.spec
        ");
    }
}
