//! The cluster's own registry: on loopback, without a password, asked by containerd in place of the public ones.

use anyhow::Result;

use super::layout::Layout;

/// Where it listens. Loopback: nobody else's business, and buildah and docker trust plain HTTP there.
pub(crate) const ADDRESS: &str = "127.0.0.1:17500";
/// The port of [`ADDRESS`].
pub(crate) const PORT: u16 = 17500;

/// Writes the configuration and returns its path.
pub(crate) fn configure(layout: &Layout) -> Result<std::path::PathBuf> {
    let text = format!(
        "version: 0.1
log:
  level: warn
storage:
  filesystem:
    rootdirectory: {}
  delete:
    enabled: true
http:
  addr: {ADDRESS}
",
        layout.dir("registry/store")?.display()
    );
    layout.write("registry/config.yaml", &text)
}

/// Returns where this registry keeps `image`, so that containerd finds it under the image's own name:
/// `nginx` lies in `library/nginx`, `ghcr.io/a/b:c` in `a/b:c`.
#[must_use]
pub(crate) fn place(image: &str) -> String {
    let (host, path) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("docker.io", image),
    };
    let library = if host == "docker.io" && !path.contains('/') {
        "library/"
    } else {
        ""
    };
    let tag = if path.contains([':', '@']) { "" } else { ":latest" };
    format!("{ADDRESS}/{library}{path}{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_address() {
        assert!(ADDRESS.ends_with(&format!(":{PORT}")));
    }

    #[test]
    fn an_image_lies_where_containerd_looks_for_its_name() {
        for (image, place_of_it) in [
            ("nginx", "library/nginx:latest"),
            ("docker.io/library/nginx:1.29", "library/nginx:1.29"),
            ("someone/app", "someone/app:latest"),
            ("ghcr.io/appdeploy/operator:v1", "appdeploy/operator:v1"),
            ("localhost:5000/app", "app:latest"),
        ] {
            assert_eq!(place(image), format!("{ADDRESS}/{place_of_it}"));
        }
    }
}
