//! The clients of the API server: the controller manager, and for fake nodes the scheduler and kwok.
//!
//! They are not waited for here: tests wait for their effects.

use std::path::Path;
use std::process::Command;

use super::apiserver::{CA, SERVICE_ACCOUNTS};
use super::{Error, write_kubeconfig};
use crate::binaries::{Binaries, Program};
use crate::fake_nodes;
use crate::pki::{self, Authority};
use crate::process::Process;

/// Arguments that the controller manager and the scheduler share.
const COMMON: [&str; 4] = [
    "--leader-elect=false",
    // No port: their health and metrics are not used.
    "--secure-port=0",
    // The default limits of 20 and 50 requests per second would dominate tests with many objects.
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
];

/// What components need to start.
pub(super) struct Components<'a> {
    pub(super) binaries: &'a Binaries,
    pub(super) folder: &'a Path,
    pub(super) authority: &'a Authority,
    pub(super) url: &'a str,
    pub(super) controller_manager: Program,
    pub(super) scheduler: Program,
}

impl Components<'_> {
    /// Starts the controller manager, with the controllers that a test needs.
    pub(super) fn controller_manager(&self, controllers: &[String]) -> Result<Process, Error> {
        let tokens = self.folder.join(format!("{SERVICE_ACCOUNTS}.key"));
        let arguments = [
            format!("--root-ca-file={}", self.folder.join(CA).display()),
            format!("--service-account-private-key-file={}", tokens.display()),
            format!("--controllers={}", controllers.join(",")),
            // Each controller has its own user with the rights that Kubernetes grants it.
            "--use-service-account-credentials".to_owned(),
        ];
        self.start(
            self.controller_manager,
            "system:kube-controller-manager",
            &[],
            arguments.into_iter().chain(COMMON.map(String::from)),
        )
    }

    /// Starts the scheduler.
    pub(super) fn scheduler(&self) -> Result<Process, Error> {
        let arguments = COMMON.map(String::from);
        self.start(self.scheduler, "system:kube-scheduler", &[], arguments)
    }

    /// Starts kwok.
    pub(super) fn kwok(&self) -> Result<Process, Error> {
        let config = self.folder.join("kwok.yaml");
        pki::write(&config, fake_nodes::CONFIG)?;
        let arguments = [format!("--config={}", config.display())];
        self.start(Program::Kwok, "testcluster-kwok", &["system:masters"], arguments)
    }

    fn start(
        &self,
        program: Program,
        user: &str,
        groups: &[&str],
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Process, Error> {
        let kubeconfig = self.folder.join(format!("{program}.kubeconfig"));
        write_kubeconfig(&kubeconfig, self.url, self.authority, user, groups)?;
        let mut command = Command::new(self.binaries.path(program));
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.args(arguments);
        Ok(Process::spawn(&command, &self.folder.join(format!("{program}.log")))?)
    }
}
