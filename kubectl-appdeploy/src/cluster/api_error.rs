//! Turns an answer of the API server into a sentence.

use kube::core::Status;
use kube::core::response::StatusDetails;
use model::{NextCommand, command};

use crate::cluster::connect_error::unreachable;
use crate::cluster::kind_info::{self, KindInfo};
use crate::error::{Error, Kind};

/// The client's reason for a response that is not a Kubernetes Status.
const NO_STATUS: &str = "Failed to parse error data";

/// The cluster of a request, and the context of its user.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    /// The address of the API server.
    pub url: &'a str,
    /// The context of the kubeconfig.
    pub context: Option<&'a str>,
    /// The kind that it was asked about.
    pub kind: &'static KindInfo,
    /// The namespace in use.
    pub namespace: &'a str,
    /// `-n NAMESPACE` where the next command needs it, too.
    pub flag: &'a NextCommand,
}

/// Returns the sentence for an error of the client.
pub fn server(error: kube::Error, asked: RequestContext<'_>) -> Error {
    match error {
        kube::Error::Api(status) => answer(&status, asked),
        kube::Error::SerdeError(source) => Error::failed("the response of the API server cannot be read")
            .why(source.to_string())
            .next("kubectl appdeploy version  (is the plugin older than what is installed?)"),
        // Nothing was sent: some name can't be part of a URL.
        kube::Error::BuildRequest(source) => {
            Error::usage("invalid name: it contains characters that no name of an object has").why(source.to_string())
        }
        other => unreachable(&other, asked.url, asked.context),
    }
}

/// Whether the server does not know the kind that was asked for, as opposed to one object.
pub fn is_missing_api(status: &Status) -> bool {
    // An API server that never heard of the group answers in plain text, without a reason.
    let plain = status.reason != NO_STATUS || status.message.contains("404 page not found");
    status.code == 404
        && plain
        && status
            .details
            .as_ref()
            .is_none_or(|details| details.name.is_empty() || details.kind.is_empty())
}

fn answer(status: &Status, asked: RequestContext<'_>) -> Error {
    let RequestContext {
        context,
        kind,
        namespace,
        flag,
        ..
    } = asked;
    if is_missing_api(status) {
        return missing(kind);
    }
    if status.reason == NO_STATUS {
        return Error::failed(format!("the server at {} is not a Kubernetes API server", asked.url))
            .why(format!(
                "it said {}: {}",
                status.code,
                status.message.lines().next().unwrap_or_default()
            ))
            .next("kubectl config view --minify");
    }
    if status.message.contains("User \"system:anonymous\"") {
        return unauthorized(context);
    }
    if status.code == 401 || status.reason == "Unauthorized" {
        return unauthorized(context);
    }
    if let Some(error) = webhook(status) {
        return error;
    }
    let details = status.details.as_ref();
    let name = details.map_or("", |details| details.name.as_str());
    let about = details.map_or("", |details| details.kind.as_str());
    let causes = details.map_or(&[][..], |details| details.causes.as_slice());
    let ours = details.and_then(of);
    let reason = if status.reason.is_empty() {
        "Unknown"
    } else {
        &status.reason
    };
    let error = Error::new(
        Kind::Failed,
        format!("Error from server ({reason}): {}", first_sentence(status)),
    );
    match (reason, ours) {
        ("NotFound", _) if about == "namespaces" => error.next(command!("kubectl create namespace {}", name)),
        ("NotFound", Some(words)) if !name.is_empty() => error
            .why(format!("namespace {namespace} has no {} of that name", words.one))
            .next(NextCommand::from(words.command).and("status -A")),
        ("AlreadyExists", Some(kind)) => error
            .why("nothing was changed")
            .next(kind.verb("status", name).and(flag.clone()))
            .next(kind.edit(name).and(flag.clone())),
        ("Forbidden", _) if status.message.contains("is being terminated") => {
            error.next("wait until the namespace is deleted, or choose another one with -n")
        }
        ("Forbidden", _) if status.message.contains("exceeded quota") => error.next("kubectl describe resourcequota"),
        ("Forbidden", _) => error.next(forbidden(&status.message)),
        ("Invalid", _) => causes
            .iter()
            // About no field: the server did not check its rules because of the other causes.
            .filter(|cause| cause.field != "<nil>")
            .fold(error, |error, cause| {
                error.why(format!("{}: {}", cause.field, rule(&cause.message)))
            })
            .next(ours.map_or_else(
                || "correct the fields above".into(),
                |kind| command!("kubectl explain {}.spec", kind.names.singular),
            )),
        ("Conflict", _) if !causes.is_empty() => causes
            .iter()
            .fold(error, |error, cause| {
                error.why(format!("{}: {}", cause.field, cause.message))
            })
            .next("--force-conflicts overwrites these fields"),
        ("Conflict", _) => error.next("another client changed it at the same time: run the command again"),
        ("Expired" | "Gone", _) => error.next("the list has expired: run the command again"),
        ("Timeout", _) if status.code == 504 => error
            .why("the change may have been stored anyway")
            .next("the API server has a problem or is overloaded: check the current state, then run the command again"),
        ("Timeout" | "ServerTimeout" | "TooManyRequests" | "ServiceUnavailable" | "InternalError", _) => {
            error.next("the API server has a problem or is overloaded: run the command again in a moment")
        }
        _ => error,
    }
}

/// Returns the error for a request that an admission webhook denied, or did not answer.
fn webhook(status: &Status) -> Option<Error> {
    let named = |before: &str| {
        let (_, rest) = status.message.split_once(before)?;
        rest.split_once('"')
    };
    let is_ours = |name: &str| name.ends_with(crd::GROUP);
    if let Some((name, rest)) = named("admission webhook \"") {
        let why = rest.trim_start_matches(" denied the request").trim_start_matches(": ");
        let who = if is_ours(name) {
            "the operator".to_owned()
        } else {
            format!("admission webhook {name}")
        };
        let error = Error::failed(format!("{who} rejected it: nothing was changed"));
        return Some(why.split("; ").fold(error, Error::why));
    }
    let (name, rest) = named("failed calling webhook \"")?;
    let why = rest
        .trim_start_matches(": ")
        .trim_start_matches("failed to call webhook: ");
    Some(if is_ours(name) {
        Error::failed("the operator did not answer the API server: nothing was changed")
            .why(why)
            .next(command!("kubectl -n {} get pods", crd::OPERATOR_NAMESPACE))
    } else {
        Error::failed(format!(
            "admission webhook {name} did not answer the API server: nothing was changed"
        ))
        .why(why)
        .next("it is not part of AppDeploy: contact its administrator, and try again")
    })
}

/// Returns which of our kinds an answer is about: it calls them now by one, now by many.
fn of(details: &StatusDetails) -> Option<&'static KindInfo> {
    let is_meant = |kind: &&KindInfo| [kind.names.kind, kind.names.plural].contains(&details.kind.as_str());
    kind_info::ALL
        .into_iter()
        .find(is_meant)
        .filter(|_| details.group == crd::GROUP)
}

/// Returns the error for a kind that the API server does not serve.
fn missing(kind: &KindInfo) -> Error {
    let error = match kind.workload {
        Some(crd::Kind::AppDeploy) => Error::failed("the AppDeploy API is not installed in this cluster"),
        // The first release had only apps.
        _ => Error::failed(format!("this cluster does not have the {} API", kind.names.kind)).why(format!(
            "AppDeploy is not installed, or in a version without {}",
            kind.many
        )),
    };
    error.next("kubectl appdeploy install")
}

/// The first line repeats every cause of an invalid object; the other lines explain them.
fn first_sentence(status: &Status) -> String {
    let message = status.message.trim();
    let invalid = status.reason == "Invalid" && status.details.as_ref().is_some_and(|d| !d.causes.is_empty());
    match message.split_once(" is invalid:") {
        Some((object, _)) if invalid => format!("{object} is invalid"),
        _ if status.reason == "Conflict" => match message.split_once(':') {
            Some((head, _)) if head.contains("conflict") => head.replace("Apply failed", "apply failed"),
            _ => message.to_owned(),
        },
        _ => message.to_owned(),
    }
}

/// Drops the API server's preamble (`Invalid value: "object": `) from the message of one of our rules. Newer API servers omit the
/// value of an object.
fn rule(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("Invalid value: ") else {
        return message;
    };
    let after_value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\": "),
        None => rest.split_once(": ").filter(|(value, _)| !value.contains(' ')),
    };
    after_value.map_or(rest, |(_, rule)| rule)
}

fn unauthorized(context: Option<&str>) -> Error {
    let who = context.map_or_else(String::new, |context| format!(" of context \"{context}\""));
    Error::failed("the cluster does not accept your credentials (Unauthorized)")
        .why(format!(
            "the token or certificate{who} is missing, wrong or has expired"
        ))
        .next("kubectl config get-contexts  (log in again, or use another context)")
}

/// Builds the question that proves the missing right, from the server's own words.
fn forbidden(message: &str) -> NextCommand {
    let part = |before: &str| -> Option<&str> {
        let (_, rest) = message.split_once(before)?;
        rest.split(['"', ' ']).next().filter(|s| !s.is_empty())
    };
    let (Some(verb), Some(resource)) = (part(" cannot "), part(" resource \"")) else {
        return "ask an administrator of the cluster".into();
    };
    let resource = match (part("API group \""), resource.split_once('/')) {
        (Some(group), Some((resource, sub))) => command!("{}.{} --subresource={}", resource, group, sub),
        (Some(group), None) => command!("{}.{}", resource, group),
        (None, _) => command!("{}", resource),
    };
    let scope = match part("in the namespace \"") {
        Some(namespace) => command!("-n {}", namespace),
        None if message.contains("at the cluster scope") => "-A".into(),
        None => NextCommand::default(),
    };
    command!("kubectl auth can-i {}", verb)
        .and(resource)
        .and(scope)
        .remark("an administrator can grant it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use serde_json::{Value, json};

    fn text(status: Value) -> String {
        let status: Status = serde_json::from_value(status).unwrap();
        let asked = RequestContext {
            url: "https://127.0.0.1:6443",
            context: Some("dev"),
            kind: crd::Kind::AppDeploy.into(),
            namespace: "default",
            flag: &NextCommand::default(),
        };
        answer(&status, asked).text(&RenderOptions::default())
    }

    #[test]
    fn message_of_a_rule_has_no_preamble() {
        for message in [
            "Invalid value: \"object\": region can't be changed: create another",
            "Invalid value: \"a: b\": region can't be changed: create another",
            "Invalid value: 7: region can't be changed: create another",
            "Invalid value: region can't be changed: create another",
            "region can't be changed: create another",
        ] {
            assert_eq!(rule(message), "region can't be changed: create another", "{message}");
        }
    }

    #[test]
    fn name_that_is_invalid_in_a_url_is_not_a_connection_error() {
        let source = http::Request::get("/api/v1/namespaces/a/secrets/a b")
            .body(())
            .unwrap_err();
        let error = kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(source));
        let asked = RequestContext {
            url: "https://127.0.0.1:6443",
            context: None,
            kind: crd::Kind::AppDeploy.into(),
            namespace: "default",
            flag: &NextCommand::default(),
        };
        insta::assert_snapshot!(server(error, asked).text(&RenderOptions::default()), @r"
        error: invalid name: it contains characters that no name of an object has
          why:  failed to build request: invalid uri character
        ");
    }

    #[test]
    fn unknown_kind_is_reported_as_missing_installation() {
        insta::assert_snapshot!(text(json!({
            "message": "the server could not find the requested resource", "reason": "NotFound", "code": 404, "details": {},
        })), @r"
        error: the AppDeploy API is not installed in this cluster
          next: kubectl appdeploy install
        ");
    }

    #[test]
    fn missing_pod_set_crd_is_reported_as_old_installation() {
        insta::assert_snapshot!(missing(crd::Kind::PodSet.into()).text(&RenderOptions::default()), @r"
        error: this cluster does not have the PodSet API
          why:  AppDeploy is not installed, or in a version without pod sets
          next: kubectl appdeploy install
        ");
    }

    #[test]
    fn expired_list_is_restarted() {
        insta::assert_snapshot!(text(json!({
            "message": "too old resource version: 1 (7)", "reason": "Expired", "code": 410,
        })), @r"
        Error from server (Expired): too old resource version: 1 (7)
          next: the list has expired: run the command again
        ");
    }

    #[test]
    fn plain_text_from_an_api_server_means_the_same() {
        let text = text(json!({"message": "404 page not found", "reason": "Failed to parse error data", "code": 404}));
        assert!(text.contains("is not installed"), "{text}");
    }

    #[test]
    fn missing_object_is_named() {
        insta::assert_snapshot!(text(json!({
            "message": "appdeploys.appdeploy.dev \"shop\" not found", "reason": "NotFound", "code": 404,
            "details": {"name": "shop", "group": "appdeploy.dev", "kind": "appdeploys"},
        })), @r#"
        Error from server (NotFound): appdeploys.appdeploy.dev "shop" not found
          why:  namespace default has no app of that name
          next: kubectl appdeploy status -A
        "#);
    }

    #[test]
    fn missing_right_comes_with_a_can_i_command() {
        insta::assert_snapshot!(text(json!({
            "message": "appdeploys.appdeploy.dev is forbidden: User \"jane\" cannot list resource \"appdeploys\" in API group \"appdeploy.dev\" in the namespace \"team-a\"",
            "reason": "Forbidden", "code": 403, "details": {"group": "appdeploy.dev", "kind": "appdeploys"},
        })), @r#"
        Error from server (Forbidden): appdeploys.appdeploy.dev is forbidden: User "jane" cannot list resource "appdeploys" in API group "appdeploy.dev" in the namespace "team-a"
          next: kubectl auth can-i list appdeploys.appdeploy.dev -n team-a
                (an administrator can grant it)
        "#);
    }

    #[test]
    fn rejection_of_the_operator_is_printed_as_it_is() {
        insta::assert_snapshot!(text(json!({
            "message": "admission webhook \"validate.appdeploy.dev\" denied the request: spec.host: a.b is used by AppDeploy shop, which came first",
            "reason": "Invalid", "code": 422,
        })), @r"
        error: the operator rejected it: nothing was changed
          why:  spec.host: a.b is used by AppDeploy shop, which came first
        ");
    }

    #[test]
    fn webhook_that_did_not_answer_is_named() {
        let unanswered = |name: &str| {
            text(
                json!({"message": format!("Internal error occurred: failed calling webhook \"{name}\": failed to call webhook: Post \"https://x.y.svc:443/?timeout=5s\": no endpoints available"),
                "reason": "InternalError", "code": 500}),
            )
        };
        insta::assert_snapshot!(unanswered("validate.appdeploy.dev"), @r#"
        error: the operator did not answer the API server: nothing was changed
          why:  Post "https://x.y.svc:443/?timeout=5s": no endpoints available
          next: kubectl -n appdeploy-system get pods
        "#);
        insta::assert_snapshot!(unanswered("policy.example.com"), @r#"
        error: admission webhook policy.example.com did not answer the API server: nothing was changed
          why:  Post "https://x.y.svc:443/?timeout=5s": no endpoints available
          next: it is not part of AppDeploy: contact its administrator, and try again
        "#);
    }

    #[test]
    fn rules_that_were_not_checked_are_not_reported() {
        insta::assert_snapshot!(text(json!({
            "message": "AppDeploy.appdeploy.dev \"shop\" is invalid: [spec.env[0].name: Too long: may not be more than 253 bytes, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]",
            "reason": "Invalid", "code": 422,
            "details": {"name": "shop", "group": "appdeploy.dev", "kind": "AppDeploy", "causes": [
                {"reason": "FieldValueTooLong", "field": "spec.env[0].name", "message": "Too long: may not be more than 253 bytes"},
                {"reason": "FieldValueInvalid", "field": "<nil>", "message": "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"}]},
        })), @r#"
        Error from server (Invalid): AppDeploy.appdeploy.dev "shop" is invalid
          why:  spec.env[0].name: Too long: may not be more than 253 bytes
          next: kubectl explain appdeploy.spec
        "#);
    }

    #[test]
    fn each_broken_rule_has_a_line() {
        insta::assert_snapshot!(text(json!({
            "message": "AppDeploy.appdeploy.dev \"shop\" is invalid: spec.port: Invalid value: 70000: spec.port in body should be less than or equal to 65535",
            "reason": "Invalid", "code": 422,
            "details": {"name": "shop", "group": "appdeploy.dev", "kind": "AppDeploy", "causes": [
                {"reason": "FieldValueInvalid", "field": "spec.port", "message": "Invalid value: 70000: spec.port in body should be less than or equal to 65535"}]},
        })), @r#"
        Error from server (Invalid): AppDeploy.appdeploy.dev "shop" is invalid
          why:  spec.port: spec.port in body should be less than or equal to 65535
          next: kubectl explain appdeploy.spec
        "#);
    }
}
