//! What a test may want otherwise than by default, and the order in which the parts come up.

use std::time::Instant;

use super::apiserver::ApiServer;
use super::etcd::start_etcd;
use super::folder::Folder;
use super::{ADMIN_KUBECONFIG, ControlPlane, Error, controllers, write_kubeconfig};
use crate::binaries::{Binaries, Component, Lines, Program};
use crate::kubectl::Kubectl;
use crate::pki::Authority;

/// A control plane to be started.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing before `start`"]
pub struct Builder {
    controllers: Vec<String>,
    apiserver_flags: Vec<String>,
    audit_off: bool,
}

impl Builder {
    /// Runs these controllers, by the names that `kube-controller-manager --controllers` takes:
    /// `&["deployment", "replicaset", "garbagecollector"]`, or `&["*"]` for all of its default.
    ///
    /// Without `serviceaccount` among them, the API server admits pods although nobody makes the
    /// namespace's default `ServiceAccount`. Without `clusterrole-aggregation`, the roles `view`, `edit` and
    /// `admin` grant nothing: it is the controller that fills them.
    pub fn controller_manager(mut self, controllers: &[&str]) -> Self {
        self.controllers.extend(controllers.iter().map(ToString::to_string));
        self
    }

    /// Adds a flag to the API server, such as
    /// `--enable-admission-plugins=OwnerReferencesPermissionEnforcement`.
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// Writes no audit log, for a measurement of time that shall not pay for it.
    pub fn without_audit(mut self) -> Self {
        self.audit_off = true;
        self
    }

    /// Starts it, and returns when it answers.
    ///
    /// # Errors
    /// When a program is missing and can't be built, or a part does not come up.
    pub fn start(self) -> Result<ControlPlane, Error> {
        let binaries = Binaries::ensure(&[Component::ControlPlane], &mut Lines::stderr())?;
        let started = Instant::now();
        let folder = Folder::new()?;
        let (etcd, etcd_url) = start_etcd(&binaries, folder.path())?;

        let authority = Authority::new("testcluster-ca")?;
        let mut flags = self.apiserver_flags.clone();
        if !self.makes_service_accounts() {
            flags.insert(0, "--disable-admission-plugins=ServiceAccount".to_owned());
        }
        let mut apiserver = ApiServer::new(&binaries, folder.path(), &authority, &etcd_url, flags, !self.audit_off)?;
        let admin = folder.path().join(ADMIN_KUBECONFIG);
        let kubectl = Kubectl::new(binaries.path(Program::Kubectl), admin.clone());
        let running = apiserver.start_on_free_port(&kubectl, |url| {
            write_kubeconfig(&admin, url, &authority, "testcluster-admin", &["system:masters"])
        })?;
        let controllers = if self.controllers.is_empty() {
            None
        } else {
            Some(controllers::start(
                &binaries,
                folder.path(),
                &authority,
                &apiserver.url(),
                &self.controllers,
            )?)
        };
        Ok(ControlPlane {
            controllers,
            running: Some(running).into(),
            etcd,
            apiserver,
            authority,
            kubectl,
            started_in: started.elapsed(),
            folder,
        })
    }

    fn makes_service_accounts(&self) -> bool {
        self.controllers
            .iter()
            .any(|name| matches!(name.as_str(), "*" | "serviceaccount" | "serviceaccount-controller"))
    }
}
