//! Describes why a registry denies the pull of an image.

use super::{Diagnosis, Reason, Subject, describe_pods, diagnosis, edit, set};
use crate::pod::PodProblem;
use crate::{NextCommand, command};

/// Returns the diagnosis for the image of a volume that can't be pulled; `None` if the problem is another one. `set image` sets
/// the image of the application.
pub(super) fn of_volume(subject: Subject<'_>, problem: &PodProblem) -> Option<Diagnosis> {
    let pod = subject.pod?;
    let others = pod.other_containers();
    let mut others = others.filter(|(_, other)| problem.container.as_deref() == Some(&*other.name));
    let own = others.next().map_or(&pod.container.image, |(_, other)| &other.image);
    let image = problem.detail.split(": ").next()?;
    let images = pod
        .volumes
        .iter()
        .filter_map(|volume| Some((volume, volume.image.as_ref()?)));
    let (volume, _) = images
        .into_iter()
        .find(|(_, found)| found.reference == image && image != own)?;
    let (reason, name, detail) = (problem.reason, &volume.name, &problem.detail);
    let (message, next) = match reason {
        Reason::ImageNotFound => (format!("image {detail} of volume {name} was not found"), edit(subject)),
        Reason::ImagePullFailed => (
            format!("the image of volume {name} can't be pulled: {detail}"),
            describe_pods(subject),
        ),
        Reason::ImagePullDenied => {
            let found = denied(subject, detail);
            let next = if pod.image_pull_secrets.is_empty() {
                Some(edit(subject))
            } else {
                found.next
            };
            return Some(diagnosis(reason, &format!("volume {name}: {}", found.message), next));
        }
        _ => return None,
    };
    Some(diagnosis(reason, &message, Some(next)))
}

/// Returns the diagnosis for a denied pull.
///
/// `detail` is the image and, after a colon, the message of the container runtime. The operator does not read Secrets, so
/// this message is all that shows whether one was used.
pub(super) fn denied(subject: Subject<'_>, detail: &str) -> Diagnosis {
    let (image, error) = detail.split_once(": ").unwrap_or((detail, ""));
    let host = registry(image);
    let Some(pod) = subject.pod else {
        let message = format!(
            "{host} does not give out {image}: the image does not exist, or imagePullSecrets names no Secret with the right password"
        );
        return diagnosis(Reason::ImagePullDenied, &message, Some(describe_pods(subject)));
    };
    let secrets: Vec<&str> = pod.image_pull_secrets.iter().map(|secret| &*secret.name).collect();
    let Some(first) = secrets.first() else {
        return diagnosis(
            Reason::ImagePullDenied,
            &format!(
                "{host} does not give out {image}: the image does not exist, or it takes a password, and imagePullSecrets names no Secret"
            ),
            Some(set(subject, "image", "IMAGE")),
        );
    };
    let named = if secrets.len() == 1 {
        format!("Secret {first}")
    } else {
        format!("each of the Secrets {}", secrets.join(", "))
    };
    let message = match Denial::read(error) {
        Denial::NoPassword => {
            format!("{host} wants a password for {image}, and got none: {named} does not exist, or is not for {host}")
        }
        Denial::WrongPassword => format!("{host} does not take the password in {named} for {image}"),
        Denial::Unclear => {
            format!(
                "{host} does not give out {image}: the image does not exist, or {named} has no password that may read it"
            )
        }
    };
    // Works whether the Secret is missing or wrong. kubectl has a default for Docker Hub.
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
    diagnosis(Reason::ImagePullDenied, &message, Some(next))
}

/// Why a registry denies a pull.
enum Denial {
    /// No password was sent.
    NoPassword,
    /// The password is wrong, or has no right to read the image.
    WrongPassword,
    /// The image does not exist or may not be read: the registry does not say which.
    Unclear,
}

impl Denial {
    fn read(error: &str) -> Self {
        let lower = error.to_lowercase();
        let contains = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
        if contains(&["no basic auth", "anonymous token"]) {
            Self::NoPassword
        } else if contains(&["insufficient_scope", "does not exist"]) {
            Self::Unclear
        } else if contains(&["401", "403", "unauthorized", "forbidden"]) {
            Self::WrongPassword
        } else {
            Self::Unclear
        }
    }
}

const DOCKER_HUB: &str = "docker.io";

/// Returns the registry of an image.
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
    use crate::diagnose::diagnose_pod;

    fn sentence(secrets: &[&str], image: &str, error: &str) -> (String, String) {
        let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
        let pod = serde_json::from_value(json!({"image": image, "imagePullSecrets": secrets})).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let found = denied(subject, &format!("{image}: {error}"));
        (found.message, found.next.unwrap().to_string())
    }

    #[test]
    fn image_of_a_volume_is_named_with_its_volume() {
        let pod = json!({"image": "nginx:1", "sidecars": [{"name": "proxy", "image": "proxy:1"}],
            "volumes": [{"name": "assets", "mountPath": "/a", "image": {"reference": "acme/assets:1"}},
                {"name": "same", "mountPath": "/b", "image": {"reference": "nginx:1"}}]});
        let pod = serde_json::from_value(pod).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let of = |reason, detail: &str, container: &str| {
            let found = diagnose_pod(subject, &PodProblem::new(reason, detail).of_container(container));
            format!("{}\n{}", found.message, found.next.unwrap())
        };
        let found = [
            of(Reason::ImageNotFound, "acme/assets:1", "app"),
            of(Reason::ImageNotFound, "acme/assets:1", "proxy"),
            of(Reason::ImagePullFailed, "acme/assets:1: i/o timeout", "app"),
            of(Reason::ImagePullDenied, &format!("acme/assets:1: {NO_PASSWORD}"), "app"),
            of(Reason::ImageNotFound, "nginx:1", "app"),
        ];
        insta::assert_snapshot!(found.join("\n"), @r"
        image acme/assets:1 of volume assets was not found
        kubectl appdeploy edit shop -n blue
        image acme/assets:1 of volume assets was not found
        kubectl appdeploy edit shop -n blue
        the image of volume assets can't be pulled: acme/assets:1: i/o timeout
        kubectl describe pods -n blue -l appdeploy.dev/app=shop
        volume assets: docker.io does not give out acme/assets:1: the image does not exist, or it takes a password, and imagePullSecrets names no Secret
        kubectl appdeploy edit shop -n blue
        image nginx:1 was not found
        kubectl appdeploy set image shop=IMAGE -n blue
        ");
    }

    /// Messages of containerd.
    const NO_PASSWORD: &str = "failed to resolve image: pull access denied, repository does not exist or may require \
                               authorization: authorization failed: no basic auth credentials";
    const WRONG_PASSWORD: &str = "failed to resolve image: unexpected status from HEAD request to \
                                  https://r.example/v2/shop/manifests/1: 401 Unauthorized";
    const DOCKER_HUBS: &str = "failed to resolve image: pull access denied, repository does not exist or may require \
                               authorization: server message: insufficient_scope: authorization failed";

    #[test]
    fn missing_secret_and_wrong_password_have_the_same_next_command() {
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
            let found = sentence(&["regcred"], "r.example:5000/shop:1", error);
            assert_eq!(found, (message.into(), next.into()));
        }
    }

    #[test]
    fn without_a_secret_the_image_may_be_misspelled() {
        let (message, next) = sentence(&[], "ngnix", DOCKER_HUBS);
        assert_eq!(
            message,
            "docker.io does not give out ngnix: the image does not exist, or it takes a password, and imagePullSecrets names no \
             Secret"
        );
        assert_eq!(next, "kubectl appdeploy set image shop=IMAGE -n blue");
    }

    #[test]
    fn docker_hub_hides_private_images_and_needs_no_server_name() {
        let (message, next) = sentence(&["one", "two"], "acme/shop:1", DOCKER_HUBS);
        assert_eq!(
            message,
            "docker.io does not give out acme/shop:1: the image does not exist, or each of the Secrets one, two has no password \
             that may read it"
        );
        assert!(
            next.starts_with("kubectl create secret docker-registry one -n blue --docker-username="),
            "{next}"
        );
    }
}
