//! The connection to the API server, with the settings that kube leaves open.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, Layer as _, service_fn};

use crate::authority::Authority;
use crate::pages::PageLimit;

/// The longest that any single request may take, watches aside.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// The longest silence on a connection. API servers send a bookmark on every watch about once a minute, so a
/// watch that is silent for two has lost its server without being told.
const SILENCE: Duration = Duration::from_secs(120);

/// Who asks, for audit logs and for the API server's priorities.
const USER_AGENT: &str = concat!("appdeploy-operator/", env!("CARGO_PKG_VERSION"));

/// Connects with a kubeconfig, or as the pod's ServiceAccount, or as the environment says. Returns beside the client what the
/// API server's certificate is checked against, where that is in a file.
///
/// # Errors
/// Says which file or setting can't be used. The API server is not asked yet.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<(Client, Option<Authority>)> {
    let (mut config, authority) = if let Some(path) = kubeconfig {
        let unusable = || format!("the kubeconfig {} can't be used", path.display());
        let file = Kubeconfig::read_from(path).with_context(unusable)?;
        let authority = Authority::of(Some(&file));
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        (config.with_context(unusable)?, authority)
    } else {
        let config = Config::infer().await.context(
            "there is no cluster to connect to; set --kubeconfig or KUBECONFIG, or run in a pod with a ServiceAccount",
        )?;
        (config, Authority::of(Kubeconfig::read().ok().as_ref()))
    };
    config
        .headers
        .push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
    // The client would repeat any request up to fifteen times, a POST included, and wait as long as the server
    // says. What failed is tried again here, each object with a backoff of its own.
    config.default_retry = false;
    config.connect_timeout = Some(DEADLINE / 2);
    config.read_timeout = Some(SILENCE);
    // Else the time that a connection was idle would count.
    config.reset_reader_on_write = true;
    let client = Client::try_from(config).context("the settings of the cluster can't be used")?;
    Ok((with_page_limit(client), authority))
}

/// Returns a client whose lists are bounded by bytes.
fn with_page_limit(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    });
    Client::new(PageLimit::default().layer(send), namespace)
}
