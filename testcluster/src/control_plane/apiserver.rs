//! The API server, which can be restarted on its port.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;
use super::readiness::{Readiness, free_port, on_free_ports};
use crate::administrator::Administrator;
use crate::audit::AuditLog;
use crate::pki::{self, Authority};
use crate::process::Process;

/// Logs each request once, when it is answered. Long-running requests are also logged when they start, because an open
/// watch has no end.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// The program and the arguments of an API server.
#[derive(Debug)]
pub(super) struct ApiServer {
    program: PathBuf,
    folder: PathBuf,
    arguments: Vec<String>,
    administrator: Administrator,
    port: u16,
}

impl ApiServer {
    /// Writes the files that the API server `program` needs. `flags` come last, and take precedence.
    pub(super) fn new(
        program: PathBuf,
        folder: &Path,
        authority: &Authority,
        etcd_url: &str,
        flags: Vec<String>,
        audit: bool,
    ) -> Result<Self, Error> {
        let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"];
        let (certificate, key) = authority.server("kube-apiserver", &names)?.write(folder, "apiserver")?;
        let (tokens_public, tokens_private) = pki::write_key_pair(folder, SERVICE_ACCOUNTS)?;
        let ca = folder.join(CA);
        pki::write(&ca, authority.certificate())?;
        let policy = folder.join("audit-policy.yaml");
        pki::write(&policy, AUDIT_POLICY)?;

        let mut arguments: Vec<String> = [
            // Loopback only, and no endpoints of a Service that no pod can reach.
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.112.0.0/16",
        ]
        .map(String::from)
        .into();
        arguments.push(format!("--etcd-servers={etcd_url}"));
        let mut file = |flag: &str, path: &Path| arguments.push(format!("--{flag}={}", path.display()));
        file("tls-cert-file", &certificate);
        file("tls-private-key-file", &key);
        file("client-ca-file", &ca);
        file("service-account-key-file", &tokens_public);
        file("service-account-signing-key-file", &tokens_private);
        if audit {
            file("audit-policy-file", &policy);
            file("audit-log-path", &folder.join(AUDIT_LOG));
            // In megabytes: the log is never rotated.
            arguments.push("--audit-log-maxsize=100000".to_owned());
        }
        arguments.extend(flags);
        Ok(Self {
            program,
            folder: folder.to_owned(),
            arguments,
            administrator: Administrator::new(authority).map_err(Error::Connect)?,
            port: 0,
        })
    }

    /// Starts it on a free port, which it keeps. `kubeconfig` is called with the URL before the start.
    pub(super) fn start_on_free_port(
        &mut self,
        kubeconfig: impl Fn(&str) -> Result<(), pki::Error>,
    ) -> Result<Process, Error> {
        on_free_ports(|| {
            self.port = free_port()?;
            kubeconfig(&self.url())?;
            self.start()
        })
    }

    /// Starts it on its port, and waits until it is ready.
    pub(super) fn start(&self) -> Result<Process, Error> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .arg(format!("--secure-port={}", self.port))
            // Most allocations of the start are kept. Collecting garbage less often saves a quarter of its processor time.
            .env("GOGC", "400");
        let mut process = Process::spawn(&command, &self.folder.join("apiserver.log"))?;
        let mut readiness = Readiness::of(&mut process);
        // The API server creates the namespace after it reports readiness, and most tests use it first.
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            readiness.wait_for(|| self.administrator.get(self.address(), path).map(drop))?;
        }
        Ok(process)
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// Returns its audit log from an offset.
    pub(super) fn audit_log(&self, start: u64) -> AuditLog {
        AuditLog::new(
            self.folder.join(AUDIT_LOG),
            start,
            self.administrator.clone(),
            self.address(),
        )
    }
}

/// The file of the authority's certificate.
pub(super) const CA: &str = "ca.crt";
/// The name of the key pair that service-account tokens are signed with.
pub(super) const SERVICE_ACCOUNTS: &str = "service-accounts";
const AUDIT_LOG: &str = "audit.log";
