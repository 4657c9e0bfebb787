//! Third-party values (names, keys, amounts, messages of webhooks) never change what a suggested command does.
//!
//! Each case builds a `next:` command twice, from plain values and from hostile ones. A shell parser must read the same
//! words from both, with the values in the same places, and a terminal must get nothing but printable characters.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is a failed test")]

use crd::{Kind, PodFields};
use model::children::DEPLOYMENT;
use model::children::{ChildState, IngressClasses, Rollout};
use model::diagnose::{Diagnosis, Reason, Subject, diagnose_pod};
use model::pod::PodProblem;
use model::printable::is_printable;
use model::status::diagnose;
use model::{Child, ChildId, Failure, Observed, validate};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Third-party values.
#[derive(Clone, Debug)]
struct Values {
    /// The name of an object, or a part of a message that is used as a name.
    name: String,
    /// A key of a Secret, or a second name.
    key: String,
}

type Case = (&'static str, fn(Kind, &Values) -> Diagnosis);

const NAMESPACE: &str = "blue";

fn subject(kind: Kind, pod: Option<&PodFields>) -> Subject<'_> {
    Subject {
        pod,
        ..Subject::named(kind, "shop", NAMESPACE)
    }
}

fn pod(spec: Value) -> PodFields {
    serde_json::from_value(spec).unwrap()
}

fn problem(kind: Kind, pod: Option<&PodFields>, reason: Reason, detail: &str) -> Diagnosis {
    diagnose_pod(subject(kind, pod), &PodProblem::new(reason, detail))
}

fn refused(kind: Kind, message: String) -> Diagnosis {
    failed(
        kind,
        Failure::Rejected {
            kind: "Pod",
            name: "shop-1".into(),
            message: format!("pods \"shop-\" is forbidden: {message}"),
        },
    )
}

fn failed(kind: Kind, failure: Failure) -> Diagnosis {
    diagnose(subject(kind, None), None, &Observed::default(), &[failure])
}

/// All commands with third-party values. Names of AppDeploys, PodSets and namespaces are DNS labels.
const CASES: &[Case] = &[
    ("a pull secret", |kind, values| {
        let pod = pod(json!({"image": "r.example/shop", "imagePullSecrets": [{"name": values.name}]}));
        let detail = "r.example/shop: 401 Unauthorized";
        problem(kind, Some(&pod), Reason::ImagePullDenied, detail)
    }),
    ("the registry of an image", |kind, values| {
        let host = format!("r.example:{}", values.name.replace(['/', ':'], ""));
        let pod = pod(json!({"image": "x", "imagePullSecrets": [{"name": values.key}]}));
        problem(kind, Some(&pod), Reason::ImagePullDenied, &format!("{host}/shop"))
    }),
    ("a missing Secret and its key", |kind, values| {
        let name = values.name.replace('"', "");
        let reference = json!({"secretKeyRef": {"name": name, "key": values.key}});
        let pod = pod(json!({"image": "x", "env": [{"name": "A", "valueFrom": reference}]}));
        let detail = format!("secret \"{name}\" not found");
        problem(kind, Some(&pod), Reason::MissingSecret, &detail)
    }),
    ("a missing ConfigMap and its key", |kind, values| {
        let name = values.name.replace('"', "");
        let reference = json!({"configMapKeyRef": {"name": name, "key": values.key}});
        let pod = pod(json!({"image": "x", "env": [{"name": "A", "valueFrom": reference}]}));
        let detail = format!("configmap \"{name}\" not found");
        problem(kind, Some(&pod), Reason::MissingConfigMap, &detail)
    }),
    ("a queue that is not ready", |kind, values| {
        let name = values.name.replace('"', "");
        let pod = pod(json!({"image": "x", "queues": [{"name": name}]}));
        let detail = format!("configmap \"{name}-queue\" not found");
        problem(kind, Some(&pod), Reason::MissingConfigMap, &detail)
    }),
    ("a missing key", |kind, values| {
        let word = |text: &str| text.replace([' ', '/'], "").split_whitespace().collect::<String>();
        let (name, key) = (format!("n{}", word(&values.name)), format!("k{}", word(&values.key)));
        let detail = format!("couldn't find key {key} in Secret {NAMESPACE}/{name}");
        problem(kind, None, Reason::MissingKey, &detail)
    }),
    ("a memory limit", |kind, values| {
        problem(kind, None, Reason::OutOfMemory, &format!("1{}", values.name))
    }),
    ("a quota", |kind, values| {
        let name = values.name.replace(", ", "");
        refused(
            kind,
            format!("exceeded quota: {name}, requested: pods=1, used: pods=1, limited: pods=1"),
        )
    }),
    ("a limit range", |kind, values| {
        let [resource, amount] = [&values.name, &values.key].map(|text| text.replace([',', ' '], ""));
        refused(
            kind,
            format!("maximum {resource} usage per Container is {amount}, but limit is 2"),
        )
    }),
    ("a name that is taken", |kind, values| {
        let name = values.name.clone();
        let owner = None;
        failed(
            kind,
            Failure::NameConflict {
                kind: "Service",
                name,
                owner,
            },
        )
    }),
    ("a webhook", |kind, values| {
        refused(
            kind,
            format!(
                "admission webhook \"{}\" denied the request: {}",
                values.name, values.key
            ),
        )
    }),
    ("a policy", |kind, values| {
        refused(
            kind,
            format!(
                "ValidatingAdmissionPolicy '{}' denied request: {}",
                values.name, values.key
            ),
        )
    }),
    ("a pod security standard", |kind, values| {
        refused(
            kind,
            format!("violates PodSecurity \"{}\": {}", values.name, values.key),
        )
    }),
    ("an unbound claim", |kind, values| {
        let words = format!(
            "0/1 nodes are available: persistentvolumeclaim \"{}\" not found.",
            values.name
        );
        problem(kind, None, Reason::Unschedulable, &words)
    }),
    ("a taint", |kind, values| {
        let words = format!(
            "0/1 nodes are available: 1 node(s) had untolerated taint {{{}: }}.",
            values.name
        );
        problem(kind, None, Reason::Unschedulable, &words)
    }),
    ("an IngressClass", |_, values| {
        let app = json!({"metadata": {"name": "shop", "namespace": NAMESPACE},
            "spec": {"image": "x", "port": 80, "ingressClassName": values.name}});
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        let rollout = Rollout {
            observed: true,
            ..Rollout::default()
        };
        let child = Child {
            state: ChildState::Rollout(Box::new(rollout)),
            ..Child::default()
        };
        let observed = Observed {
            children: vec![(ChildId::new(&DEPLOYMENT, "shop"), child.into())],
            ingress_classes: IngressClasses::Known {
                names: ["nginx".into()].into(),
                has_default: false,
            },
            ..Observed::default()
        };
        let valid = validate(&app).ok();
        diagnose(subject(Kind::AppDeploy, None), valid.as_ref(), &observed, &[])
    }),
];

/// The only text after a pipe in a suggested command.
const PIPE: &str = " | kubectl apply -f -";

fn text(found: &Diagnosis) -> Option<String> {
    found.next.as_ref().map(ToString::to_string)
}

fn words(command: &str) -> Vec<String> {
    let command = command.strip_suffix(PIPE).unwrap_or(command);
    shlex::split(command).unwrap_or_else(|| panic!("a shell does not end this command: {command}"))
}

/// Returns the characters of a command that a shell reads outside of quotes.
fn unquoted(command: &str) -> String {
    let mut rest = command.strip_suffix(PIPE).unwrap_or(command).chars();
    let mut out = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '\'' => drop(rest.find(|c| *c == '\'')),
            c => out.push(c),
        }
    }
    out
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || " _@%+=:,./-".contains(c)
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns a value as a command shows it at the start of a word or within one.
fn shown(value: &str, starts_word: bool) -> String {
    if starts_word && (value.is_empty() || value.starts_with('-')) {
        return "NAME".to_owned();
    }
    value
        .chars()
        .map(|c| if is_printable(c) { c } else { '\u{fffd}' })
        .collect()
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(" "),
        Just("'"),
        Just("\""),
        Just("\\"),
        Just("$(id)"),
        Just("`id`"),
        Just("${HOME}"),
        Just("; id #"),
        Just("&& id"),
        Just("| sh"),
        Just("> /tmp/x"),
        Just("\n"),
        Just("\r"),
        Just("\t"),
        Just("\u{1b}[2J"),
        Just("\u{1b}]0;x\u{7}"),
        Just("\u{202e}"),
        Just("\u{200b}"),
        Just("\u{9b}"),
        Just("!!"),
        Just("*"),
        Just("~"),
        Just("{a,b}"),
        Just("=ls"),
        Just("--server=evil"),
        Just("-n"),
        Just("  (a remark)"),
        Just("a"),
        Just("ä"),
        Just("%"),
    ];
    prop_oneof![
        proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

proptest! {
    /// With any values, no text outside of quotes has a special meaning for a shell or a terminal.
    #[test]
    fn hostile_values_stay_inside_quotes(name in hostile(), key in hostile()) {
        let values = Values { name, key };
        for kind in Kind::ALL {
            for (title, case) in CASES {
                let found = case(kind, &values);
                prop_assert!(!found.message.contains(is_hidden), "{title}: {:?}", found.message);
                let Some(command) = text(&found) else { continue };
                prop_assert!(!command.contains(is_hidden), "{title}: {command:?}");
                let outside = unquoted(&command);
                prop_assert!(outside.chars().all(is_plain), "{title}: {command}: outside of quotes: {outside}");
                prop_assert!(outside.starts_with("kubectl "), "{title}: {command}");
                words(&command);
            }
        }
    }

    /// A command that contains a name contains it as exactly one word, or one part of a word.
    #[test]
    fn commands_have_exactly_the_intended_words(name in hostile(), key in hostile()) {
        let secret = |name: &str| {
            let pod = pod(json!({"image": "r.example/shop", "imagePullSecrets": [{"name": name}]}));
            text(&problem(Kind::AppDeploy, Some(&pod), Reason::ImagePullDenied, "r.example/shop: 401")).unwrap()
        };
        let plain = words(&secret("regcred"));
        let intended: Vec<String> =
            plain.into_iter().map(|word| if word == "regcred" { shown(&name, true) } else { word }).collect();
        prop_assert_eq!(words(&secret(&name)), intended);

        let taken = |name: &str| {
            let (name, owner) = (name.to_owned(), None);
            text(&failed(Kind::AppDeploy, Failure::NameConflict { kind: "Service", name, owner })).unwrap()
        };
        let intended: Vec<String> =
            words(&taken("web")).into_iter().map(|word| if word == "web" { shown(&name, true) } else { word }).collect();
        prop_assert_eq!(words(&taken(&name)), intended);

        // The kubelet writes the name in quotation marks.
        let name = name.replace('"', "");
        let missing = |name: &str, key: &str| {
            let reference = json!({"secretKeyRef": {"name": name, "key": key}});
            let pod = pod(json!({"image": "x", "env": [{"name": "A", "valueFrom": reference}]}));
            let detail = format!("secret \"{name}\" not found");
            text(&problem(Kind::AppDeploy, Some(&pod), Reason::MissingSecret, &detail)).unwrap()
        };
        let intended: Vec<String> = words(&missing("db", "password"))
            .into_iter()
            .map(|word| match word.as_str() {
                "db" => shown(&name, true),
                "--from-literal=password=VALUE" => format!("--from-literal={}=VALUE", shown(&key, false)),
                _ => word,
            })
            .collect();
        prop_assert_eq!(words(&missing(&name, &key)), intended);
    }
}

#[test]
fn each_case_has_a_command() {
    let values = Values {
        name: "alpha".into(),
        key: "beta".into(),
    };
    for kind in Kind::ALL {
        for (title, case) in CASES {
            assert!(text(&case(kind, &values)).is_some(), "{title}");
        }
    }
}
