//! Is this the image that runs?

use k8s_openapi::api::core::v1::ContainerStatus;

/// Whether a container runs an image. A runtime reports an image by any of its names, spelled out; so a "no" may be
/// wrong.
pub fn is_run_by(wanted: &str, running: &ContainerStatus) -> bool {
    match wanted.split_once('@') {
        Some((_, digest)) => running.image_id.split_once('@').is_some_and(|(_, id)| id == digest),
        None => spelled_out(wanted) == spelled_out(&running.image),
    }
}

/// Spells out what the name of an image leaves to defaults: `nginx` is `docker.io/library/nginx:latest`.
fn spelled_out(image: &str) -> String {
    let has_registry = image
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let registry = match image {
        _ if has_registry => "",
        _ if image.contains('/') => "docker.io/",
        _ => "docker.io/library/",
    };
    let has_tag = image.rsplit('/').next().is_some_and(|last| last.contains(':'));
    format!("{registry}{image}{}", if has_tag { "" } else { ":latest" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_any_spelling() {
        let digest = "nginx@sha256:1";
        for (wanted, image, id, is_it) in [
            ("nginx", "docker.io/library/nginx:latest", "", true),
            ("nginx:1", "docker.io/library/nginx:1", "", true),
            ("nginx:1", "docker.io/library/nginx:2", "", false),
            ("shop/web:1", "docker.io/shop/web:1", "", true),
            ("localhost:5000/web", "localhost:5000/web:latest", "", true),
            ("ghcr.io/shop/web:1", "ghcr.io/shop/web:1", "", true),
            (digest, "sha256:7", "docker.io/library/nginx@sha256:1", true),
            (
                digest,
                "docker.io/library/nginx:1",
                "docker.io/library/nginx@sha256:2",
                false,
            ),
            ("nginx:1", "", "", false),
        ] {
            let running = ContainerStatus {
                image: image.into(),
                image_id: id.into(),
                ..ContainerStatus::default()
            };
            assert_eq!(is_run_by(wanted, &running), is_it, "{wanted} as {image}");
        }
    }
}
