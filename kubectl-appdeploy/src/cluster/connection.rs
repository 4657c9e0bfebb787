//! The connection to a cluster, with a deadline for each call.

mod flags;
mod proxy;
mod writes;

use std::time::Duration;

use crd::Kind;
use futures::future::LocalBoxFuture;
use http::Response;
use http::header::{HeaderValue, USER_AGENT};
use kube::Api;
use kube::api::DynamicObject;
use kube::client::ClientBuilder;
use kube::config::{
    Context, ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster, NamedContext,
};
use kube::{Client, Config};
use model::{NextCommand, command};
use tokio::time::timeout;
use tower::util::MapResponseLayer;

use crate::cluster::kind_info::{self, KindInfo};
use crate::cluster::{api_error, connect_error};
use crate::error::{Error, Result};
use crate::output::duration;

pub use flags::KubeArgs;
use writes::RecordWrites;
pub use writes::Writes;

/// The field manager of what the plugin writes.
pub const MANAGER: &str = "kubectl-appdeploy";
/// The user agent of the plugin, which audit logs show.
const AGENT: &str = concat!("kubectl-appdeploy/", env!("CARGO_PKG_VERSION"));
/// How long one call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    read: Duration,
    write: Duration,
}

impl Limits {
    /// The default timeouts of requests. The API server aborts a request after 60 s, and an admission webhook may use 30 s of them.
    /// A client that stops waiting earlier does not learn whether its change was stored.
    const DEFAULT: Self = Self {
        read: Duration::from_secs(10),
        write: Duration::from_secs(65),
    };
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct Cluster {
    /// The client.
    pub client: Client,
    /// The requested namespace, or the namespace of the context.
    pub namespace: String,
    /// The kind of the objects with pods that commands are about.
    pub kind: Kind,
    /// The kind of its requests: `kind`, or one whose objects have no pods.
    info: &'static KindInfo,
    /// Whether it was asked for by flag: a hint must repeat it.
    namespaced: bool,
    url: String,
    context: Option<String>,
    limits: Option<Limits>,
    writes: Writes,
}

impl KubeArgs {
    /// Returns the cluster that the flags and the kubeconfig mean. Nothing is sent yet.
    pub async fn connect(&self) -> Result<Cluster> {
        // Two crates of this process could install a provider; rustls needs one to be selected.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (mut config, context) = self.config().await?;
        let limits = match self.request_timeout {
            None => Some(Limits::DEFAULT),
            Some(Duration::ZERO) => None,
            Some(duration) => Some(Limits {
                read: duration,
                write: duration,
            }),
        };
        // A failed call is reported immediately: the user can run the command again.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        if config.cluster_url.scheme().is_none() {
            // The client of kube panics without one.
            return Err(connect_error::server_without_scheme(&url));
        }
        let builder = ClientBuilder::try_from(config)
            .map_err(|source| connect_error::unreachable(&source, &url, context.as_deref()))?;
        let warnings = self.warnings.clone();
        let listen = MapResponseLayer::new(move |answer: Response<_>| {
            warnings.record(answer.headers());
            answer
        });
        let writes = self.writes.clone();
        let client = builder
            .with_layer(&listen)
            .with_layer(&RecordWrites(writes.clone()))
            .build();
        Ok(Cluster {
            client,
            namespace,
            kind: Kind::AppDeploy,
            info: kind_info::of(Kind::AppDeploy),
            namespaced: self.namespace.is_some(),
            url,
            context,
            limits,
            writes,
        })
    }

    pub(crate) async fn config(&self) -> Result<(Config, Option<String>)> {
        let path = self.path();
        let mut kubeconfig = match (&self.kubeconfig, &self.server) {
            (Some(file), _) => Kubeconfig::read_from(file),
            (None, _) => Kubeconfig::read(),
        };
        if matches!(&kubeconfig, Err(e) if is_absent(e)) && self.kubeconfig.is_none() {
            if self.server.is_some() {
                kubeconfig = Ok(Kubeconfig::default());
            } else if let Ok(config) = Config::incluster() {
                // As kubectl in a pod does.
                return Ok((self.overridden(config), None));
            }
        }
        let mut kubeconfig = kubeconfig.map_err(|source| connect_error::kubeconfig(&source, &path))?;
        self.point(&mut kubeconfig);
        if self.unattended {
            let logins = kubeconfig
                .auth_infos
                .iter_mut()
                .filter_map(|named| named.auth_info.as_mut());
            for exec in logins.filter_map(|login| login.exec.as_mut()) {
                exec.interactive_mode = Some(ExecInteractiveMode::Never);
            }
        }
        let context = self.context.clone().or_else(|| kubeconfig.current_context.clone());
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        if let Some(user) = &self.user
            && !kubeconfig.auth_infos.iter().any(|named| &named.name == user)
        {
            return Err(Error::failed(format!("user \"{user}\" not found in {path}")).next("kubectl config get-users"));
        }
        let own_proxy = kubeconfig
            .clusters
            .iter()
            .any(|named| named.cluster.as_ref().is_some_and(|c| c.proxy_url.is_some()));
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|source| connect_error::kubeconfig(&source, &path))?;
        if !own_proxy && proxy::is_direct(&config.cluster_url) {
            config.proxy_url = None;
        }
        let named = context.filter(|name| !name.is_empty());
        Ok((self.overridden(config), named))
    }

    /// Puts the flags that describe a cluster into the kubeconfig, so that they are read like the rest.
    fn point(&self, kubeconfig: &mut Kubeconfig) {
        if self.server.is_some()
            && kubeconfig.current_context.as_deref().unwrap_or_default().is_empty()
            && self.context.is_none()
        {
            let context = Context::default();
            kubeconfig.contexts.push(NamedContext {
                name: String::new(),
                context: Some(context),
                ..NamedContext::default()
            });
            kubeconfig.clusters.push(NamedCluster {
                name: String::new(),
                cluster: Some(kube::config::Cluster::default()),
                ..NamedCluster::default()
            });
            kubeconfig.current_context = Some(String::new());
        }
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            if let Some(server) = &self.server {
                cluster.server = Some(server.clone());
            }
            if let Some(file) = &self.certificate_authority {
                cluster.certificate_authority = Some(file.display().to_string());
                cluster.certificate_authority_data = None;
            }
            if self.insecure_skip_tls_verify {
                cluster.insecure_skip_tls_verify = Some(true);
            }
            if let Some(name) = &self.tls_server_name {
                cluster.tls_server_name = Some(name.clone());
            }
        }
    }

    fn overridden(&self, mut config: Config) -> Config {
        let auth = &mut config.auth_info;
        if let Some(token) = &self.token {
            auth.token = Some(token.clone().into());
            (auth.token_file, auth.exec, auth.auth_provider, auth.username) = (None, None, None, None);
        }
        if self.act_as.is_some() {
            auth.impersonate.clone_from(&self.act_as);
        }
        if self.as_uid.is_some() {
            auth.impersonate_uid.clone_from(&self.as_uid);
        }
        if !self.as_group.is_empty() {
            auth.impersonate_groups = Some(self.as_group.clone());
        }
        config
    }

    fn path(&self) -> String {
        self.kubeconfig.as_ref().map_or_else(
            || {
                std::env::var("KUBECONFIG")
                    .ok()
                    .filter(|value| !value.is_empty())
                    .unwrap_or_else(|| "~/.kube/config".to_owned())
            },
            |file| file.display().to_string(),
        )
    }
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath | KubeconfigError::CurrentContextNotSet => true,
        KubeconfigError::ReadConfig(source, _) => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

impl Cluster {
    /// Returns the same cluster, asked about another kind.
    #[must_use]
    pub fn about(self, kind: impl Into<&'static KindInfo>) -> Self {
        let info = kind.into();
        let kind = info.workload.unwrap_or(self.kind);
        Self { kind, info, ..self }
    }

    /// Returns the same cluster with another namespace.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        Self {
            namespaced: self.namespaced || self.namespace != namespace,
            namespace: namespace.to_owned(),
            ..self
        }
    }

    /// Returns the words for the kind that is asked about.
    pub const fn kind_info(&self) -> &'static KindInfo {
        self.info
    }

    /// Reads an object of this kind in the namespace, with its `apiVersion` and `kind`.
    pub async fn get(&self, name: &str) -> Result<DynamicObject> {
        let object = self.call(self.objects(Some(&self.namespace)).get(name)).await?;
        Ok(kind_info::complete(self.info, object))
    }

    /// Returns the objects of the kind in a namespace, or in all.
    pub fn objects(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        kind_info::api(&self.client, self.info, namespace)
    }

    /// Returns a name of the kind as kubectl prints it.
    pub fn title(&self, name: &str) -> String {
        kind_info::title(self.info, name)
    }

    /// Returns the name of the cluster, for a prompt.
    pub fn place(&self) -> String {
        match &self.context {
            Some(context) => format!("context {context}, {}", self.url),
            None => self.url.clone(),
        }
    }

    /// Returns `-n NAMESPACE` for the next command where this one had it.
    pub fn flag(&self) -> NextCommand {
        if self.namespaced {
            command!("-n {}", self.namespace)
        } else {
            NextCommand::default()
        }
    }

    /// Waits for one call until its deadline, and explains a failure.
    pub fn call<'a, T: 'a>(
        &'a self,
        call: impl Future<Output = kube::Result<T>> + 'a,
    ) -> LocalBoxFuture<'a, Result<T>> {
        let attempt = self.attempt(call);
        Box::pin(async move { attempt.await?.map_err(|source| self.explain(source)) })
    }

    /// Waits for one call and leaves the server's answer to the caller. A change is waited for longer than a read.
    ///
    /// The future of a call is large and there are many of them: each lives on the heap.
    pub fn attempt<'a, T: 'a>(
        &'a self,
        call: impl Future<Output = kube::Result<T>> + 'a,
    ) -> LocalBoxFuture<'a, Result<kube::Result<T>>> {
        let Some(limits) = self.limits else {
            return Box::pin(async move { Ok(call.await) });
        };
        let mut call = Box::pin(call);
        Box::pin(async move {
            if let Ok(answer) = timeout(limits.read, &mut call).await {
                return Ok(answer);
            }
            let mut waited = limits.read;
            if self.writes.is_open() {
                waited = limits.write;
                if let Ok(answer) = timeout(limits.write.saturating_sub(limits.read), &mut call).await {
                    return Ok(answer);
                }
            }
            drop(call);
            let error = Error::failed(format!(
                "the API server at {} did not answer within {}",
                self.url,
                duration::text(waited)
            ));
            Err(if self.writes.take_unanswered() {
                self.in_doubt(error)
            } else {
                error
                    .why("--request-timeout sets how long to wait")
                    .next("kubectl get --raw=/readyz  (shows whether the API server is healthy)")
            })
        })
    }

    /// Adds to an error that the change may have been made.
    fn in_doubt(&self, error: Error) -> Error {
        error.why("the change was sent, and may have been stored anyway").next(
            NextCommand::from(self.kind_info().command)
                .and("status")
                .and(self.flag())
                .remark("shows the current state"),
        )
    }

    /// Returns an error of the client in words.
    pub fn explain(&self, source: kube::Error) -> Error {
        let asked = api_error::RequestContext {
            url: &self.url,
            context: self.context.as_deref(),
            kind: self.info,
            namespace: &self.namespace,
            flag: &self.flag(),
        };
        let is_in_doubt = self.writes.take_unanswered() && connect_error::may_have_arrived(&source);
        let error = api_error::server(source, asked);
        if is_in_doubt { self.in_doubt(error) } else { error }
    }
}
