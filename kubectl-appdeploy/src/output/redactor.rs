//! Removes secrets from a report: values of environment variables and arguments, annotations of other managers, passwords and
//! tokens in texts. Names are kept, so that the report can be understood.

use std::collections::BTreeSet;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde_json::Value;

/// Replaces each secret.
pub const MASK: &str = "<redacted>";

/// A shorter value may be a word of any text, and hides nothing that is worth it.
const SHORTEST: usize = 6;

/// Words in the names of secret fields.
const KEYS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
];

/// Finds the next of them in one pass; without it, each would be looked for up to the end of the line, again and again.
static FIND_KEY: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let builder = &mut AhoCorasick::builder();
    builder.ascii_case_insensitive(true).build(KEYS).ok()
});

/// Annotations that Kubernetes and AppDeploy write themselves.
const HARMLESS: [&str; 10] = [
    "deployment.kubernetes.io/revision",
    "ingressclass.kubernetes.io/is-default-class",
    crd::annotation::CONFIG_HASH,
    crd::annotation::DESIRED_HASH,
    crd::annotation::ADOPTED_AT,
    crd::annotation::RESTARTED_AT,
    crd::annotation::TEMPLATE_HASH,
    crd::annotation::SHAPE_HASH,
    crd::annotation::REPLACES,
    crd::annotation::RELEASED_FROM,
];

/// Replaces secrets in objects and texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Values of secret fields. They are removed from all texts, too.
    known: BTreeSet<String>,
    /// Finds all of them in one pass over a text; `None` if there are more than it can take.
    find_known: OnceLock<Option<AhoCorasick>>,
}

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Part of an installation: the operator's own flags are what one wants to see.
    Operator,
    /// A third-party application.
    Person,
}

impl Redactor {
    /// Records the secret values of an object. Annotations of the operator's own objects are not secret, because its log contains
    /// them.
    pub fn add(&mut self, object: &Value, owner: Owner) {
        walk(object, &mut Vec::new(), &mut |path, text| {
            let is_word = owner == Owner::Operator && path.iter().any(|step| step == "annotations");
            if let Some(secret) = secret(path, text, owner).filter(|_| !is_word)
                && secret.len() >= SHORTEST
            {
                self.known.insert(secret.to_owned());
            }
        });
        self.find_known = OnceLock::new();
    }

    /// Keeps a name, even if it is also the value of a variable: without names, a report can't be understood.
    pub fn forget(&mut self, name: &str) {
        self.known.remove(name);
        self.find_known = OnceLock::new();
    }

    /// Returns an object without secret values.
    pub fn object(&self, object: &Value, owner: Owner) -> Value {
        self.value(object, &mut Vec::new(), owner)
    }

    fn value(&self, value: &Value, path: &mut Vec<String>, owner: Owner) -> Value {
        match value {
            Value::Object(fields) => {
                let named = fields.get("name").and_then(Value::as_str).unwrap_or_default();
                let fields = fields
                    .iter()
                    .filter(|(key, _)| *key != "managedFields")
                    .map(|(key, field)| {
                        path.push(step(key, named));
                        let field = self.value(field, path, owner);
                        path.pop();
                        (key.clone(), field)
                    });
                Value::Object(fields.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.value(item, path, owner)).collect(),
            Value::String(text) => match secret(path, text, owner) {
                Some(secret) => {
                    let kept = text.strip_suffix(secret).unwrap_or_default();
                    Value::from(format!("{kept}{MASK}"))
                }
                None => Value::from(self.text(text)),
            },
            other => other.clone(),
        }
    }

    /// Returns a text without recorded secrets and without strings that look like secrets.
    pub fn text(&self, text: &str) -> String {
        let find = self.find_known.get_or_init(|| {
            // The longest: one may be part of another.
            let builder = &mut AhoCorasick::builder();
            builder.match_kind(MatchKind::LeftmostLongest).build(&self.known).ok()
        });
        let Some(find) = find else {
            return MASK.to_owned();
        };
        let masks = vec![MASK; self.known.len()];
        let text = find.replace_all(text, &masks);
        let lines = text.split('\n').scan(false, |is_key, line| {
            let is_end = line.contains("-----END ");
            if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY-----") {
                *is_key = !is_end;
                return Some(MASK.to_owned());
            }
            if *is_key {
                *is_key = !is_end;
                return Some(MASK.to_owned());
            }
            Some(named(&tokens(&credentials(line))))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Calls a function for each string of a value, with its path.
fn walk<'a>(value: &'a Value, path: &mut Vec<String>, visit: &mut impl FnMut(&[String], &'a str)) {
    match value {
        Value::Object(fields) => {
            let named = fields.get("name").and_then(Value::as_str).unwrap_or_default();
            for (key, field) in fields {
                path.push(step(key, named));
                walk(field, path, visit);
                path.pop();
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, visit)),
        Value::String(text) => visit(path, text),
        _ => {}
    }
}

/// A step of a path. A `value` has the name next to it, which decides whether it is secret.
fn step(key: &str, named: &str) -> String {
    if key == "value" && !named.is_empty() {
        format!("value of {named}")
    } else {
        key.to_owned()
    }
}

/// Returns the part of a text that is secret because of its path: a suffix.
fn secret<'a>(path: &[String], text: &'a str, owner: Owner) -> Option<&'a str> {
    let last = path.last()?.as_str();
    let above = path
        .len()
        .checked_sub(2)
        .and_then(|index| path.get(index))
        .map(String::as_str);
    if above == Some("annotations") {
        return (!HARMLESS.contains(&last)).then_some(text);
    }
    if let Some(name) = last.strip_prefix("value of ")
        && ["env", "httpHeaders"].contains(&above?)
    {
        let is_ours = owner == Owner::Operator && name.starts_with("APPDEPLOY_");
        return (!is_ours).then_some(text);
    }
    if ["args", "command"].contains(&last) {
        return match (owner, text.split_once('=')) {
            // Whatever is secret in its flags looks like it.
            (Owner::Operator, _) => None,
            (Owner::Person, Some((flag, value))) if flag.starts_with('-') => Some(value),
            (Owner::Person, None) if text.starts_with('-') => None,
            (Owner::Person, _) => Some(text),
        };
    }
    None
}

/// Redacts user and password in URLs: `postgres://user:password@host`.
fn credentials(line: &str) -> String {
    let mut parts = line.split("://");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("://");
        let end = part.find(|c: char| c.is_whitespace() || "/\"'<>".contains(c));
        let (authority, rest) = part.split_at(end.unwrap_or(part.len()));
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                text.push_str(MASK);
                text.push('@');
                text.push_str(host);
            }
            None => text.push_str(authority),
        }
        text.push_str(rest);
    }
    text
}

/// Redacts tokens by their form: JSON Web Tokens, and words after `Bearer` or `Basic`.
fn tokens(line: &str) -> String {
    let mut follows_scheme = false;
    let words = line
        .split_inclusive(|c: char| c.is_whitespace() || "\"'=,".contains(c))
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| c.is_whitespace() || "\"'=,".contains(c));
            let is_token = (follows_scheme && bare.len() >= SHORTEST)
                || (bare.len() > 30 && bare.starts_with("eyJ") && bare.matches('.').count() == 2);
            follows_scheme = ["bearer", "basic"].contains(&bare.to_lowercase().as_str());
            if is_token {
                format!("{MASK}{}", &word[bare.len()..])
            } else {
                word.to_owned()
            }
        });
    words.collect()
}

/// Redacts values by their name: `password=…`, `"token": "…"`, `DB_PASSWORD: …`.
fn named(line: &str) -> String {
    let Some(find) = FIND_KEY.as_ref() else {
        return MASK.to_owned();
    };
    let mut text = String::new();
    let mut at = 0;
    while let Some(key) = find.find(Input::new(line).range(at..)) {
        let key_end = key.end();
        let end = line[key_end..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)))
            .map_or(line.len(), |length| key_end + length);
        text.push_str(&line[at..end]);
        at = end;
        let Some((begin, finish)) = value_after(&line[end..]) else {
            continue;
        };
        text.push_str(&line[end..end + begin]);
        text.push_str(MASK);
        at = end + finish;
    }
    text.push_str(&line[at..]);
    text
}

/// Returns the range of the value that follows a key, if there is one.
fn value_after(rest: &str) -> Option<(usize, usize)> {
    let skip = |from: usize, those: &str| {
        from + rest[from..]
            .find(|c: char| !those.contains(c))
            .unwrap_or(rest.len() - from)
    };
    // The quote that ends the key.
    let sign = skip(skip(0, "\\\"'"), " ");
    rest[sign..].starts_with([':', '=']).then_some(())?;
    let spaced = skip(sign + 1, " ");
    let begin = skip(spaced, "\\\"'");
    let quote = rest[spaced..begin].chars().find(|c| "\"'".contains(*c));
    let length = rest[begin..].find(|c: char| match quote {
        Some(quote) => c == quote || c == '\\',
        None => c.is_whitespace() || "\"',;&)}]".contains(c),
    });
    let end = begin + length.unwrap_or(rest.len() - begin);
    (end > begin).then_some((begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn no_known_secret_stays_in_a_text(
            secrets in vec("[abc]{6,9}", 0..20),
            text in "[abc \n]{0,200}",
        ) {
            let env: Vec<Value> = secrets.iter().map(|secret| json!({"name": "A", "value": secret})).collect();
            let mut mask = Redactor::default();
            mask.add(&json!({"env": env}), Owner::Person);
            let masked = mask.text(&text);
            for secret in &secrets {
                prop_assert!(!masked.contains(secret.as_str()), "{secret} is in {masked}");
            }
            // The remaining parts are in the text, in this order.
            let mut rest = text.as_str();
            for part in masked.split(MASK) {
                let found = rest.find(part);
                prop_assert!(found.is_some(), "{part:?} is not in {rest:?}");
                rest = &rest[found.unwrap_or_default() + part.len()..];
            }
        }
    }

    #[test]
    fn passwords_in_texts_are_redacted() {
        let mask = Redactor::default();
        for (text, without) in [
            (
                "dial postgres://jane:open-sesame@db:5432/shop failed",
                "dial postgres://<redacted>@db:5432/shop failed",
            ),
            ("redis://:p@ss/word@host", "redis://<redacted>@ss/word@host"),
            ("see https://example.com/a@b", "see https://example.com/a@b"),
            ("password=hunter22 user=jane", "password=<redacted> user=jane"),
            ("DB_PASSWORD: 'a b c', next", "DB_PASSWORD: '<redacted>', next"),
            (
                r#"{"accessToken": "abc", "n": 1}"#,
                r#"{"accessToken": "<redacted>", "n": 1}"#,
            ),
            (
                r#"msg="{\"api_key\":\"abc\"}""#,
                r#"msg="{\"api_key\":\"<redacted>\"}""#,
            ),
            ("GET /?token=abc&page=2", "GET /?token=<redacted>&page=2"),
            (
                "Authorization: Bearer abcdefghi",
                "Authorization: <redacted> <redacted>",
            ),
            ("curl -H 'X: bearer abcdefghi'", "curl -H 'X: bearer <redacted>'"),
            (
                "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdef here",
                "got <redacted> here",
            ),
            ("Secret db has no key password", "Secret db has no key password"),
            ("tokens are renewed; ünïcode stays", "tokens are renewed; ünïcode stays"),
        ] {
            assert_eq!(mask.text(text), without);
        }
        let key = "a\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\nb";
        assert_eq!(mask.text(key), "a\n<redacted>\n<redacted>\n<redacted>\nb");
    }

    #[test]
    fn values_in_objects_are_redacted_and_names_stay() {
        let pod = json!({
            "metadata": {"name": "shop", "managedFields": [{}], "annotations": {
                "deployment.kubernetes.io/revision": "3", "example.com/note": "hunter22",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"spec\": 1}"}},
            "spec": {"containers": [{
                "name": "app", "image": "nginx", "command": ["/bin/sh", "-c", "echo hunter22"],
                "args": ["--user=jane", "--verbose", "plain"],
                "env": [{"name": "PASSWORD", "value": "hunter22"},
                    {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}],
                "livenessProbe": {"httpGet": {"path": "/", "httpHeaders": [{"name": "X", "value": "abc"}]}}}],
                "imagePullSecrets": [{"name": "regcred"}]},
            "status": {"message": "crashed with hunter22"}});
        let mut mask = Redactor::default();
        mask.add(&pod, Owner::Person);
        insta::assert_snapshot!(serde_json::to_string_pretty(&mask.object(&pod, Owner::Person)).unwrap(), @r#"
        {
          "metadata": {
            "annotations": {
              "deployment.kubernetes.io/revision": "3",
              "example.com/note": "<redacted>",
              "kubectl.kubernetes.io/last-applied-configuration": "<redacted>"
            },
            "name": "shop"
          },
          "spec": {
            "containers": [
              {
                "args": [
                  "--user=<redacted>",
                  "--verbose",
                  "<redacted>"
                ],
                "command": [
                  "<redacted>",
                  "-c",
                  "<redacted>"
                ],
                "env": [
                  {
                    "name": "PASSWORD",
                    "value": "<redacted>"
                  },
                  {
                    "name": "OTHER",
                    "valueFrom": {
                      "secretKeyRef": {
                        "key": "password",
                        "name": "db"
                      }
                    }
                  }
                ],
                "image": "nginx",
                "livenessProbe": {
                  "httpGet": {
                    "httpHeaders": [
                      {
                        "name": "X",
                        "value": "<redacted>"
                      }
                    ],
                    "path": "/"
                  }
                },
                "name": "app"
              }
            ],
            "imagePullSecrets": [
              {
                "name": "regcred"
              }
            ]
          },
          "status": {
            "message": "crashed with <redacted>"
          }
        }
        "#);
        assert_eq!(mask.text("the log says hunter22, too"), "the log says <redacted>, too");
        mask.forget("hunter22");
        assert_eq!(mask.text("namespace hunter22"), "namespace hunter22");
    }

    #[test]
    fn settings_of_the_operator_are_not_redacted() {
        let container = json!({"containers": [{"name": "operator", "args": ["--watch-namespace=a", "--otlp-endpoint=http://jane:abc@collector"],
            "env": [{"name": "APPDEPLOY_WEBHOOKS", "value": "true"}, {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": "key=abcdefg"}]}]});
        let seen = Redactor::default().object(&container, Owner::Operator)["containers"][0].clone();
        assert_eq!(
            seen["args"],
            json!(["--watch-namespace=a", "--otlp-endpoint=http://<redacted>@collector"])
        );
        let mut mask = Redactor::default();
        let noted = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "operator"}}});
        mask.add(&noted, Owner::Operator);
        assert_eq!(
            mask.text("the lease of appdeploy-operator"),
            "the lease of appdeploy-operator"
        );
        assert_eq!(seen["env"][0]["value"], "true");
        assert_eq!(seen["env"][1]["value"], MASK);
    }
}
