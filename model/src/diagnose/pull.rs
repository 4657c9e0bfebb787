//! A registry that does not give out an image, said to a person.

use super::{Diagnosis, Reason, Subject, describe_pods, said, set};
use crate::{NextCommand, command};

/// Says why a registry does not give out an image, and what to do about it.
///
/// `detail` is the image and, behind a colon, what the container runtime said. The operator reads no Secret: whether
/// one was used can only be told from these words, and what is wrong with it not at all.
pub(super) fn denied(subject: Subject<'_>, detail: &str) -> Diagnosis {
    let (image, error) = detail.split_once(": ").unwrap_or((detail, ""));
    let host = registry(image);
    let Some(pod) = subject.pod else {
        let message = format!(
            "{host} does not give out {image}: there is no such image, or imagePullSecrets names no Secret with the right password"
        );
        return said(Reason::ImagePullDenied, &message, Some(describe_pods(subject)));
    };
    let secrets: Vec<&str> = pod.image_pull_secrets.iter().map(|secret| &*secret.name).collect();
    let Some(first) = secrets.first() else {
        return said(
            Reason::ImagePullDenied,
            &format!(
                "{host} does not give out {image}: there is no such image, or it takes a password, and imagePullSecrets names no Secret"
            ),
            Some(set(subject, "image", "IMAGE")),
        );
    };
    let named = if secrets.len() == 1 {
        format!("Secret {first}")
    } else {
        format!("each of the Secrets {}", secrets.join(", "))
    };
    let message = match Answer::read(error) {
        Answer::Unasked => {
            format!("{host} wants a password for {image}, and got none: {named} does not exist, or is not for {host}")
        }
        Answer::Refused => format!("{host} does not take the password in {named} for {image}"),
        Answer::Unclear => {
            format!(
                "{host} does not give out {image}: there is no such image, or {named} has no password that may read it"
            )
        }
    };
    // Works whether the Secret is missing or wrong. Docker Hub goes by a name of its own, which kubectl knows.
    let server = if host == DOCKER_HUB {
        NextCommand::default()
    } else {
        command!("--docker-server={}", host)
    };
    let next = command!(
        "kubectl create secret docker-registry {} -n {}",
        first,
        subject.namespace
    )
    .and(server)
    .and("--docker-username=USER --docker-password=PASSWORD --dry-run=client -o yaml | kubectl apply -f -");
    said(Reason::ImagePullDenied, &message, Some(next))
}

/// What a registry made of the password.
enum Answer {
    /// There was none.
    Unasked,
    /// It was wrong, or not enough.
    Refused,
    /// It says the same of what is not there and of what may not be read.
    Unclear,
}

impl Answer {
    fn read(error: &str) -> Self {
        let lower = error.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if says(&["no basic auth", "anonymous token"]) {
            Self::Unasked
        } else if says(&["insufficient_scope", "does not exist"]) {
            Self::Unclear
        } else if says(&["401", "403", "unauthorized", "forbidden"]) {
            Self::Refused
        } else {
            Self::Unclear
        }
    }
}

const DOCKER_HUB: &str = "docker.io";

/// Returns where an image lies.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => DOCKER_HUB,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(secrets: &[&str], image: &str, error: &str) -> (String, String) {
        let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
        let pod = serde_json::from_value(json!({"image": image, "imagePullSecrets": secrets})).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let found = denied(subject, &format!("{image}: {error}"));
        (found.message, found.next.unwrap().to_string())
    }

    /// containerd's own words.
    const NO_PASSWORD: &str = "failed to resolve image: pull access denied, repository does not exist or may require \
                               authorization: authorization failed: no basic auth credentials";
    const WRONG_PASSWORD: &str = "failed to resolve image: unexpected status from HEAD request to \
                                  https://r.example/v2/shop/manifests/1: 401 Unauthorized";
    const DOCKER_HUBS: &str = "failed to resolve image: pull access denied, repository does not exist or may require \
                               authorization: server message: insufficient_scope: authorization failed";

    #[test]
    fn a_missing_secret_is_told_from_a_wrong_password_and_both_are_mended_by_one_command() {
        let next = "kubectl create secret docker-registry regcred -n blue --docker-server=r.example:5000 \
                    --docker-username=USER --docker-password=PASSWORD --dry-run=client -o yaml | kubectl apply -f -";
        for (error, message) in [
            (
                NO_PASSWORD,
                "r.example:5000 wants a password for r.example:5000/shop:1, and got none: Secret regcred does not exist, or is \
                 not for r.example:5000",
            ),
            (
                WRONG_PASSWORD,
                "r.example:5000 does not take the password in Secret regcred for r.example:5000/shop:1",
            ),
        ] {
            let found = told(&["regcred"], "r.example:5000/shop:1", error);
            assert_eq!(found, (message.into(), next.into()));
        }
    }

    #[test]
    fn who_names_no_secret_may_have_misspelled_the_image() {
        let (message, next) = told(&[], "ngnix", DOCKER_HUBS);
        assert_eq!(
            message,
            "docker.io does not give out ngnix: there is no such image, or it takes a password, and imagePullSecrets names no \
             Secret"
        );
        assert_eq!(next, "kubectl appdeploy set image shop=IMAGE -n blue");
    }

    #[test]
    fn docker_hub_does_not_say_which_it_is_and_needs_no_server() {
        let (message, next) = told(&["one", "two"], "acme/shop:1", DOCKER_HUBS);
        assert_eq!(
            message,
            "docker.io does not give out acme/shop:1: there is no such image, or each of the Secrets one, two has no password \
             that may read it"
        );
        assert!(
            next.starts_with("kubectl create secret docker-registry one -n blue --docker-username="),
            "{next}"
        );
    }
}
