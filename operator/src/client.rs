//! The connection to the API server, with the settings that kube leaves open.

mod http2;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{Layer as _, service_fn};

use crate::pages::PageLimit;

use http2::Transport;

/// The longest time that a request may take, except watches.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// The longest silence of a response. API servers send a bookmark on each watch about once a minute, and the first one up to
/// two minutes after its start. A watch that is silent for three minutes has lost its server.
const SILENCE: Duration = Duration::from_secs(180);

/// The user agent, for audit logs and for the API server's priorities.
const USER_AGENT: &str = concat!("appdeploy-operator/", env!("CARGO_PKG_VERSION"));

/// Connects with a kubeconfig, or as the pod's ServiceAccount, or as the environment says.
///
/// The file of the certificate authority is read again once a minute by kube: a cluster that changes its authority trusts both for
/// a while (<https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates/>). kube does this by itself in
/// a pod, and here for a kubeconfig that names a file.
///
/// # Errors
/// Returns which file or setting can't be used. No request is sent yet.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let (mut config, authority) = if let Some(path) = kubeconfig {
        let unusable = || format!("the kubeconfig {} can't be used", path.display());
        let file = Kubeconfig::read_from(path).with_context(unusable)?;
        let authority = authority_file(&file);
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        (config.with_context(unusable)?, authority)
    } else {
        let config = Config::infer().await.context(
            "there is no cluster to connect to; set --kubeconfig or KUBECONFIG, or run in a pod with a ServiceAccount",
        )?;
        (config, Kubeconfig::read().ok().as_ref().and_then(authority_file))
    };
    config
        .headers
        .push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
    // The client would repeat any request up to fifteen times, also a POST, and wait as long as the server asks. The operator
    // retries by itself, with a backoff for each object.
    config.default_retry = false;
    config.connect_timeout = Some(DEADLINE / 2);
    config.read_timeout = Some(SILENCE);
    // Otherwise the time that a connection of HTTP/1.1 was idle would count.
    config.reset_reader_on_write = true;
    config.root_cert_file = config.root_cert_file.or(authority);
    let namespace = config.default_namespace.clone();
    let transport = Transport::new(config).context("the settings of the cluster can't be used")?;
    let send = service_fn(move |request| {
        let transport = transport.clone();
        async move { transport.send(request).await }
    });
    // Lists are bounded by bytes.
    Ok(Client::new(PageLimit::default().layer(send), namespace))
}

/// Returns the file of the authority that a kubeconfig names for its current context.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?;
    let cluster = cluster.cluster.as_ref()?;
    // Data in the kubeconfig take precedence over a file.
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| cluster.certificate_authority_data.is_none())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(authority: &str) -> Kubeconfig {
        let text = format!(
            "current-context: b\ncontexts: [{{name: a, context: {{cluster: a}}}}, {{name: b, context: {{cluster: b}}}}]\n\
             clusters: [{{name: a, cluster: {{certificate-authority: /a}}}}, {{name: b, cluster: {{{authority}}}}}]\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn kubeconfig_of_the_current_context_is_found() {
        let file = |authority| authority_file(&kubeconfig(authority));
        assert_eq!(file("certificate-authority: /b"), Some("/b".into()));
        assert_eq!(file("certificate-authority-data: YQ=="), None);
        assert_eq!(
            file("certificate-authority: /b, certificate-authority-data: YQ=="),
            None
        );
        assert_eq!(file("insecure-skip-tls-verify: true"), None);
    }
}
