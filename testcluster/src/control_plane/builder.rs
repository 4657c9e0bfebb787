//! Settings of a control plane, and the order in which its components start.

use std::time::Instant;

use super::apiserver::ApiServer;
use super::components::Components;
use super::etcd::Etcd;
use super::folder::Folder;
use super::pool::PooledControlPlane;
use super::readiness::Readiness;
use super::{ADMIN_KUBECONFIG, ControlPlane, Error, write_kubeconfig};
use crate::binaries::{Binaries, Component, Lines, Program};
use crate::fake_nodes;
use crate::kubectl::Kubectl;
use crate::pki::Authority;
use crate::process::Process;

/// The settings of a control plane.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing before `start`"]
pub struct Builder {
    controllers: Vec<String>,
    fake_nodes: usize,
    apiserver_flags: Vec<String>,
    audit_off: bool,
    is_oldest: bool,
    definitions: Vec<String>,
}

impl Builder {
    /// Runs these controllers, by the names that `kube-controller-manager --controllers` takes:
    /// `&["deployment", "replicaset", "garbagecollector"]`, or `&["*"]` for all of its default.
    ///
    /// Without `serviceaccount`, which creates the default `ServiceAccount` of namespaces, the API server admits pods
    /// without one. Without `clusterrole-aggregation`, which fills the roles `view`, `edit` and `admin`, these grant nothing.
    pub fn controller_manager(mut self, controllers: &[&str]) -> Self {
        self.controllers.extend(controllers.iter().map(ToString::to_string));
        self
    }

    /// Adds [fake nodes](fake_nodes), and what they need: the scheduler, kwok, and the controllers `replicaset` and
    /// `garbagecollector`.
    pub fn fake_nodes(mut self, count: usize) -> Self {
        self.fake_nodes = count;
        self
    }

    /// Adds a flag to the API server, such as
    /// `--enable-admission-plugins=OwnerReferencesPermissionEnforcement`.
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// Applies CRDs, or any manifest, before the controllers start. The garbage collector looks for new kinds every 30
    /// seconds, and does not collect their objects before that.
    pub fn definition(mut self, manifest: impl Into<String>) -> Self {
        self.definitions.push(manifest.into());
        self
    }

    /// Runs the API server, the controller manager and the scheduler of the oldest Kubernetes that AppDeploy supports.
    pub fn oldest(mut self) -> Self {
        self.is_oldest = true;
        self
    }

    /// Writes no audit log, for measurements of time.
    pub fn without_audit(mut self) -> Self {
        self.audit_off = true;
        self
    }

    /// Returns a control plane from the pool of this process, or starts one. It has the objects of a new one: those of
    /// earlier tests are removed. Control planes with controllers, fake nodes, flags or an older version are not pooled.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn pooled(self) -> Result<PooledControlPlane, Error> {
        PooledControlPlane::take(self)
    }

    /// Returns the definitions, if the control plane can be reused.
    pub(super) fn reusable(&self) -> Option<&[String]> {
        let is_plain = self.controllers.is_empty()
            && self.fake_nodes == 0
            && self.apiserver_flags.is_empty()
            && !self.audit_off
            && !self.is_oldest;
        is_plain.then_some(&self.definitions)
    }

    /// Starts it, and returns when it is ready.
    ///
    /// # Errors
    /// When a program is missing and can't be built, or a component does not start.
    pub fn start(self) -> Result<ControlPlane, Error> {
        let mut programs = vec![Component::ControlPlane];
        programs.extend((self.fake_nodes > 0).then_some(Component::Kwok));
        programs.extend(self.is_oldest.then_some(Component::Oldest));
        let binaries = Binaries::ensure(&programs, &mut Lines::stderr())?;
        let started = Instant::now();
        let folder = Folder::new()?;
        let (etcd, store) = Etcd::start_empty(&binaries, folder.path())?;

        let authority = Authority::new("testcluster-ca")?;
        let flags = self.all_apiserver_flags();
        let [apiserver, controller_manager, scheduler] = if self.is_oldest {
            [
                Program::OldestApiserver,
                Program::OldestControllerManager,
                Program::OldestScheduler,
            ]
        } else {
            [
                Program::KubeApiserver,
                Program::KubeControllerManager,
                Program::KubeScheduler,
            ]
        };
        let mut apiserver = ApiServer::new(
            binaries.path(apiserver),
            folder.path(),
            &authority,
            &etcd.url(),
            flags,
            !self.audit_off,
        )?;
        let admin = folder.path().join(ADMIN_KUBECONFIG);
        let kubectl = Kubectl::new(binaries.path(Program::Kubectl), admin.clone());
        let running = apiserver.start_on_free_port(|url| {
            write_kubeconfig(&admin, url, &authority, "testcluster-admin", &["system:masters"])
        })?;
        self.apply_definitions(&kubectl)?;
        let components = self.start_components(
            &Components {
                binaries: &binaries,
                folder: folder.path(),
                authority: &authority,
                url: &apiserver.url(),
                controller_manager,
                scheduler,
            },
            &kubectl,
        )?;
        Ok(ControlPlane {
            components,
            running: Some(running).into(),
            store: Some(store).into(),
            etcd,
            apiserver,
            authority,
            kubectl,
            started_in: started.elapsed(),
            audit_start: 0.into(),
            is_disturbed: false.into(),
            folder,
        })
    }

    fn apply_definitions(&self, kubectl: &Kubectl) -> Result<(), Error> {
        if !self.definitions.is_empty() {
            kubectl.apply(&self.definitions.join("\n---\n"))?;
        }
        // kubectl reports an error if there is no CRD.
        if self
            .definitions
            .iter()
            .any(|text| text.contains("CustomResourceDefinition"))
        {
            kubectl.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])?;
        }
        Ok(())
    }

    fn start_components(&self, components: &Components<'_>, kubectl: &Kubectl) -> Result<Vec<Process>, Error> {
        let mut controllers = self.controllers.clone();
        let mut started = Vec::new();
        if self.fake_nodes > 0 {
            controllers.extend(["replicaset", "garbagecollector"].map(String::from));
            started.push(components.scheduler()?);
        }
        if !controllers.is_empty() {
            started.push(components.controller_manager(&controllers)?);
        }
        if self.fake_nodes > 0 {
            started.push(self.start_fake_nodes(components, kubectl)?);
        }
        Ok(started)
    }

    fn start_fake_nodes(&self, components: &Components<'_>, kubectl: &Kubectl) -> Result<Process, Error> {
        let mut kwok = components.kwok()?;
        fake_nodes::create(kubectl, self.fake_nodes)?;
        Readiness::of(&mut kwok)
            .slowly()
            .wait_for(|| match fake_nodes::ready(kubectl) {
                Ok(ready) if ready == self.fake_nodes => Ok(()),
                Ok(ready) => Err(format!("{ready} of {} nodes are ready", self.fake_nodes)),
                Err(error) => Err(error.to_string()),
            })?;
        Ok(kwok)
    }

    fn all_apiserver_flags(&self) -> Vec<String> {
        let mut plugins = Vec::new();
        if !self.creates_service_accounts() {
            plugins.push("ServiceAccount");
        }
        if self.fake_nodes > 0 {
            // It taints new nodes until the controller `nodelifecycle`, which may not run, removes the taint.
            plugins.push("TaintNodesByCondition");
        }
        let mut flags = Vec::new();
        if !plugins.is_empty() {
            flags.push(format!("--disable-admission-plugins={}", plugins.join(",")));
        }
        flags.extend(self.apiserver_flags.iter().cloned());
        flags
    }

    fn creates_service_accounts(&self) -> bool {
        self.controllers
            .iter()
            .any(|name| matches!(name.as_str(), "*" | "serviceaccount" | "serviceaccount-controller"))
    }
}
