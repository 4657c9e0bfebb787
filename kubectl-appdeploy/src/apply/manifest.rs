//! One document as it stands in a file, checked.

use crd::Kind;
use serde_json::Value;

use super::source::Document;
use crate::error::{Error, Result};
use crate::{check, schema, workload};

/// What the API server writes: it is in what was printed, and nobody means to change it.
const WRITTEN_BY_THE_SERVER: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// An app or a pod set that is to be as its file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Which of them.
    pub kind: Kind,
    /// Where it is to be.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What is sent.
    pub object: Value,
}

impl Manifest {
    /// Reads a document. `asked` is the namespace that was asked for, `usual` the one of who asked for none.
    pub fn of(document: Document, asked: Option<&str>, usual: &str) -> Result<Self> {
        let Document { place, value } = document;
        let refuse = |what: &str| Error::usage(format!("{place}: {what}: nothing was done"));
        let kind = kind(&value).ok_or_else(|| {
            let what = match (value["kind"].as_str(), value["apiVersion"].as_str()) {
                (Some(kind), Some(version)) => format!("{kind} of {version} is neither an app nor a pod set"),
                _ => "kind and apiVersion are missing".to_owned(),
            };
            refuse(&what).next("kubectl apply -f  (it takes objects of every kind, these too)")
        })?;
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(refuse("metadata.name is missing"));
        }
        let problems = schema::problems(kind, &value);
        if !problems.is_empty() {
            let error = refuse(&format!("{} can't be read", workload::title(kind, &name)));
            return Err(problems
                .into_iter()
                .fold(error, Error::why)
                .next(format!("kubectl explain {}.spec", kind.singular())));
        }
        let own = value["metadata"]["namespace"].as_str();
        let namespace = match (own, asked) {
            (Some(own), Some(asked)) if own != asked => {
                return Err(refuse(&format!(
                    "{} is of namespace {own}, and {asked} was asked for",
                    workload::title(kind, &name)
                ))
                .next("leave out -n, or the namespace in the file"));
            }
            (own, asked) => own.or(asked).unwrap_or(usual).to_owned(),
        };
        let mut object = value;
        check::object(kind, &object)?;
        object["metadata"]["namespace"] = namespace.clone().into();
        for (of, fields) in [("", &["status"][..]), ("metadata", &WRITTEN_BY_THE_SERVER)] {
            let part = if of.is_empty() { &mut object } else { &mut object[of] };
            if let Some(part) = part.as_object_mut() {
                part.retain(|field, _| !fields.contains(&field.as_str()));
            }
        }
        Ok(Self {
            kind,
            namespace,
            name,
            object,
        })
    }
}

fn kind(value: &Value) -> Option<Kind> {
    let version = format!("{}/{}", crd::GROUP, crd::VERSION);
    let is_ours = value["apiVersion"] == version;
    Kind::ALL
        .into_iter()
        .find(|kind| is_ours && value["kind"] == kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Look;
    use serde_json::json;

    fn read(value: Value, asked: Option<&str>) -> Result<Manifest> {
        let document = Document {
            place: "shop.yaml".to_owned(),
            value,
        };
        Manifest::of(document, asked, "default")
    }

    fn app(metadata: Value, spec: Value) -> Value {
        json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": metadata, "spec": spec, "status": {"url": "x"}})
    }

    #[test]
    fn what_the_server_wrote_is_left_out() {
        let metadata = json!({"name": "shop", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}});
        let manifest = read(app(metadata, json!({"image": "nginx"})), Some("a")).unwrap();
        assert_eq!(
            manifest.object,
            json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
                "metadata": {"name": "shop", "namespace": "a", "labels": {"a": "b"}}, "spec": {"image": "nginx"}})
        );
    }

    #[test]
    fn what_is_wrong_with_a_document_is_told_with_its_place() {
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
        let said = said.map(|read| read.unwrap_err().text(&Look::default()));
        insta::assert_snapshot!(said.join("\n"), @r"
        error: shop.yaml: Service of v1 is neither an app nor a pod set: nothing was done
          next: kubectl apply -f  (it takes objects of every kind, these too)
        error: shop.yaml: AppDeploy of appdeploy.dev/v2 is neither an app nor a pod set: nothing was done
          next: kubectl apply -f  (it takes objects of every kind, these too)
        error: shop.yaml: kind and apiVersion are missing: nothing was done
          next: kubectl apply -f  (it takes objects of every kind, these too)
        error: shop.yaml: metadata.name is missing: nothing was done
        error: shop.yaml: appdeploy.appdeploy.dev/shop is of namespace a, and b was asked for: nothing was done
          next: leave out -n, or the namespace in the file
        error: shop.yaml: appdeploy.appdeploy.dev/shop can't be read: nothing was done
          why:  spec.prot: there is no such field; did you mean port?
          why:  spec.volume: there is no such field
          next: kubectl explain appdeploy.spec
        error: appdeploy.appdeploy.dev/shop would not be valid; nothing was sent
          why:  spec: host, path, ingressClassName and tls need a port to lead to: set spec.port, or remove them
        error: shop.yaml: appdeploy.appdeploy.dev/shop can't be read: nothing was done
          why:  spec.replicas: take a whole number
          next: kubectl explain appdeploy.spec
        error: shop.yaml: appdeploy.appdeploy.dev/shop can't be read: nothing was done
          why:  spec.image: it is missing
          next: kubectl explain appdeploy.spec
        ");
    }
}
