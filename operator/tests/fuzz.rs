//! What the operator reads that others write, with anything in it: reviews, objects, names. Nothing makes it panic, and what it
//! takes has what it promises. `make faults` tries each for longer; what was found once is next to the seeds.

use std::path::PathBuf;
use std::sync::Arc;

use crd::{AppDeploy, PodSet};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use model::admit::{label_patch, rights_to_references, warnings};
use model::children::DEPLOYMENT;
use model::podset::ValidPodSet;
use model::{Observed, desired, plan, validate};
use operator::call::Caller;
use operator::lease::fence::Fence;
use operator::metrics::Metrics;
use operator::stores::Stores;
use operator::webhook::admission::{Admission, router};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn fuzz<W: std::hash::Hash>(name: &str, target: impl Fn(&[u8]) -> W) {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(name);
    let tried = faults::fuzz::run(&corpus, target).unwrap();
    eprintln!(
        "{name}: {} inputs, {} different answers, at most {:?} for one",
        tried.inputs, tried.words, tried.longest
    );
    assert!(tried.words > 1, "it says the same to everything");
}

/// An admission whose access reviews allow everything.
fn admission() -> Admission {
    let service = tower::service_fn(|_: Request<Body>| async {
        let answer = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
            "metadata": {}, "spec": {}, "status": {"allowed": true}});
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
    });
    let caller = Caller::new(
        Client::new(service, "default"),
        Arc::new(Metrics::default()),
        Fence::open(),
    );
    Admission::new(caller, Arc::new(Stores::default()), vec!["example.com".to_owned()])
}

/// Returns the code and the body of an answer.
async fn ask(admission: &Admission, path: &str, body: &[u8]) -> (StatusCode, Vec<u8>) {
    let request = Request::post(path).body(axum::body::Body::from(body.to_vec())).unwrap();
    let answer = router(admission.clone()).oneshot(request).await.unwrap();
    let code = answer.status();
    (code, answer.into_body().collect().await.unwrap().to_bytes().to_vec())
}

/// D5: a body of any kind is answered, with the UID of the request, and what the operator changes of an object it changes once.
#[test]
fn any_request_body_is_a_review_or_is_rejected() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let admission = {
        let _runtime = runtime.enter();
        admission()
    };
    fuzz("admission", |body| {
        runtime.block_on(async {
            let mut words = Vec::new();
            for path in ["/validate", "/mutate"] {
                let (code, answer) = ask(&admission, path, body).await;
                assert!(matches!(code, StatusCode::OK | StatusCode::BAD_REQUEST), "{code}");
                if code == StatusCode::BAD_REQUEST {
                    words.push(code.to_string());
                    continue;
                }
                let asked: Asked = serde_json::from_slice(body).unwrap();
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                let response = &answer["response"];
                assert_eq!(response["uid"], asked.request.uid);
                assert!(response["allowed"].is_boolean());
                words.push(kind_of_word(&response["status"]["message"].to_string()));
                words.push(response["patch"].is_string().to_string());
            }
            words
        })
    });
}

/// The parts of a review that an answer needs. The others need not even be text.
#[derive(Deserialize)]
struct Asked {
    request: Identified,
}

#[derive(Deserialize)]
struct Identified {
    uid: String,
}

/// A message without its names and numbers, of which there is no limited set.
fn kind_of_word(text: &str) -> String {
    let word = |word: &&str| word.len() < 20 && word.chars().all(|c| c.is_ascii_alphabetic() || c == '.' || c == ':');
    text.split_whitespace().filter(word).collect::<Vec<_>>().join(" ")
}

fn problems(invalid: &model::Invalid) -> Vec<String> {
    invalid.0.iter().map(|problem| kind_of_word(problem)).collect()
}

/// An app that is valid has children, of which none differs from itself.
fn app(object: Value) -> Vec<String> {
    if let Some(usual) = applied(object.clone(), &label_patch(&object)) {
        assert_eq!(
            label_patch(&usual),
            json!([]),
            "the usual form of the usual form: {usual}"
        );
    }
    let app: AppDeploy = match serde_json::from_value(object) {
        Ok(app) => app,
        Err(error) => return vec![kind_of_word(&error.to_string())],
    };
    let _ = (rights_to_references(&app, None), warnings(&app));
    let again: AppDeploy = serde_json::from_value(serde_json::to_value(&app).unwrap()).unwrap();
    assert_eq!(again.spec, app.spec);
    match validate(&app) {
        Err(invalid) => problems(&invalid),
        Ok(valid) => {
            let children = desired(&valid);
            let actions = plan(&valid, &children, &Observed::default()).actions;
            assert!(actions.iter().any(|action| *action.kind() == DEPLOYMENT));
            for child in children.iter() {
                assert_eq!(child.id.name, valid.name, "{}", child.id);
            }
            vec![
                format!("{} children", actions.len()),
                valid.pod.container.env.len().to_string(),
            ]
        }
    }
}

/// A set that is valid has names for its pods, and knows them again.
fn podset(object: Value) -> Vec<String> {
    let set: PodSet = match serde_json::from_value(object) {
        Ok(set) => set,
        Err(error) => return vec![kind_of_word(&error.to_string())],
    };
    let _ = (rights_to_references(&set, None), warnings(&set));
    match ValidPodSet::of(&set) {
        Err(invalid) => problems(&invalid),
        Ok(valid) => {
            for slot in [0, 1, u16::MAX] {
                assert_eq!(valid.slot_of(&valid.pod_name(slot)), Some(slot));
            }
            vec!["valid".to_owned()]
        }
    }
}

/// Carries out a patch of the kinds that the usual form needs; none on a value that should be an object and is not, which an API
/// server refuses.
fn applied(mut object: Value, patch: &Value) -> Option<Value> {
    for step in patch.as_array()? {
        let (parent, key) = step["path"].as_str()?.rsplit_once('/')?;
        let parent = object.pointer_mut(parent)?.as_object_mut()?;
        parent.insert(key.replace("~1", "/"), step["value"].clone());
    }
    Some(object)
}

/// G5, G7, G8: an object that anybody may have stored.
#[test]
fn any_object_is_parsed_or_rejected() {
    fuzz("objects", |body| {
        let Ok(object) = serde_json::from_slice::<Value>(body) else {
            return vec!["no JSON".to_owned()];
        };
        [app(object.clone()), podset(object)].concat()
    });
}

/// F9, G3: an accepted host, path or image has no characters with a meaning for other programs.
#[test]
fn any_host_path_or_image_is_safe_or_rejected() {
    fuzz("texts", |body| {
        let text = String::from_utf8_lossy(body);
        let with = |field: &str| {
            let mut spec = json!({"image": "nginx", "port": 80});
            spec[field] = json!(text);
            let object = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
                "metadata": {"name": "shop", "namespace": "default"}, "spec": spec});
            let app: AppDeploy = serde_json::from_value(object).unwrap();
            validate(&app).is_ok()
        };
        let taken = ["host", "path", "image"].map(with);
        let [host, path, image] = taken;
        let plain = |signs: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c));
        assert!(!host || plain("-.") && text.len() <= 253, "not a host: {text:?}");
        assert!(!path || plain("/._~-") && text.starts_with('/'), "not a path: {text:?}");
        assert!(!image || !text.contains(char::is_whitespace), "not an image: {text:?}");
        (taken, text.len().min(300) / 50)
    });
}
