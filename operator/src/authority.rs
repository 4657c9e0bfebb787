//! The authority that the API server's certificate is checked against. Its file is read when the connection is made, and
//! what it says counts for as long as that lasts.
//!
//! A cluster that gets another authority gives out both for a while, then the new one alone, and a kubelet keeps the file in
//! every pod. Who has read it before has to start again, or one day trusts its API server no more
//! (<https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates/>).

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::Kubeconfig;
use tokio::time::sleep;

/// Where a kubelet keeps it in a pod.
const IN_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// How often it is read again. A kubelet takes as long to bring it.
const PERIOD: Duration = Duration::from_secs(60);

/// What was in the file of the authority when the connection was made.
#[derive(Debug)]
pub struct Authority {
    path: PathBuf,
    content: Vec<u8>,
}

impl Authority {
    /// Reads the file that a kubeconfig names for its current context, or that a pod has. Nothing if there is none: then
    /// the authority is in the kubeconfig itself.
    #[must_use]
    pub fn of(kubeconfig: Option<&Kubeconfig>) -> Option<Self> {
        let path = match kubeconfig {
            Some(kubeconfig) => file_of(kubeconfig)?,
            None => PathBuf::from(IN_POD),
        };
        let content = std::fs::read(&path).ok()?;
        Some(Self { path, content })
    }

    /// Waits until there is another one, and returns its file.
    pub async fn replaced(&self) -> &Path {
        loop {
            // Operators of the same cluster get it at the same time, and should not start again at the same time.
            sleep(PERIOD.mul_f64(0.5 + fastrand::f64())).await;
            // What can't be read or is empty is on its way.
            let content = std::fs::read(&self.path).unwrap_or_default();
            if !content.is_empty() && content != self.content {
                return &self.path;
            }
        }
    }
}

fn file_of(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?;
    let cluster = cluster.cluster.as_ref()?;
    // What is in the kubeconfig itself counts before a file.
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| cluster.certificate_authority_data.is_none())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::{Instant, timeout};

    use super::*;

    fn kubeconfig(authority: &str) -> Kubeconfig {
        let text = format!(
            "current-context: b\ncontexts: [{{name: a, context: {{cluster: a}}}}, {{name: b, context: {{cluster: b}}}}]\n\
             clusters: [{{name: a, cluster: {{certificate-authority: /a}}}}, {{name: b, cluster: {{{authority}}}}}]\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn the_file_is_that_of_the_current_context() {
        let file = |authority| file_of(&kubeconfig(authority));
        assert_eq!(file("certificate-authority: /b"), Some("/b".into()));
        assert_eq!(file("certificate-authority-data: YQ=="), None);
        assert_eq!(
            file("certificate-authority: /b, certificate-authority-data: YQ=="),
            None
        );
        assert_eq!(file("insecure-skip-tls-verify: true"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn another_authority_is_found_out_within_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        fs::write(&path, "old").unwrap();
        let authority =
            Authority::of(Some(&kubeconfig(&format!("certificate-authority: {}", path.display())))).unwrap();
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, authority.replaced()).await.is_err(), "it is the same");
        for on_its_way in [None, Some("")] {
            match on_its_way {
                None => fs::remove_file(&path).unwrap(),
                Some(text) => fs::write(&path, text).unwrap(),
            }
            assert!(timeout(hour, authority.replaced()).await.is_err(), "{on_its_way:?}");
        }
        fs::write(&path, "old and new").unwrap();
        let started = Instant::now();
        assert_eq!(authority.replaced().await, path);
        assert!(started.elapsed() <= PERIOD * 2, "{:?}", started.elapsed());
    }
}
