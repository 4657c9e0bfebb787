//! Turns a failure to reach a cluster, or to find out which, into a sentence.

use std::error::Error as StdError;
use std::io;

use kube::client::AuthError;
use kube::config::KubeconfigError;

use crate::error::{Error, system_error};
use crate::output::yaml;

const CONTEXTS: &str = "kubectl config get-contexts";

/// Returns the sentence for a kubeconfig that cannot be used.
pub fn kubeconfig(error: &KubeconfigError, path: &str) -> Error {
    match error {
        KubeconfigError::CurrentContextNotSet => {
            Error::failed(format!("no cluster is chosen: {path} has no current context"))
                .next(CONTEXTS)
                .next("kubectl config use-context NAME  (or add --context=NAME)")
        }
        KubeconfigError::LoadContext(name) => {
            Error::failed(format!("context \"{name}\" not found in {path}")).next(CONTEXTS)
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            Error::failed(format!("cluster \"{name}\" not found in {path}")).next("kubectl config get-clusters")
        }
        KubeconfigError::FindPath => no_cluster(path),
        KubeconfigError::ReadConfig(source, file) if source.kind() == io::ErrorKind::NotFound => {
            no_cluster(&file.display().to_string())
        }
        KubeconfigError::ReadConfig(source, file) => Error::failed(format!(
            "cannot read the kubeconfig {}: {}",
            file.display(),
            system_error(source)
        ))
        .next("kubectl config view"),
        KubeconfigError::Parse(source) => Error::failed(format!("{path} is not a valid kubeconfig"))
            .why(yaml::why(source))
            .next("kubectl config view"),
        other => {
            Error::failed(format!("cannot use the kubeconfig {path}: {}", chain(other))).next("kubectl config view")
        }
    }
}

/// Returns the error for a missing kubeconfig.
fn no_cluster(path: &str) -> Error {
    Error::failed(format!("no cluster is configured: {path} does not exist"))
        .next("export KUBECONFIG=FILE  (or add --kubeconfig=FILE)")
}

/// Returns the sentence for a request that got no answer.
pub fn unreachable(error: &(dyn StdError + 'static), url: &str, context: Option<&str>) -> Error {
    let said = innermost(error);
    let cannot = |why: String| Error::failed(format!("cannot reach the cluster at {url}")).why(why);
    let lower = said.to_lowercase();
    if matches!(find::<kube::Error>(error), Some(kube::Error::Auth(_))) {
        return Error::failed("cannot log in to the cluster")
            .why(find::<AuthError>(error).map_or(said, login))
            .next("kubectl config view --minify  (log in again, or run what it shows under exec)");
    }
    if lower.contains("close_notify") || lower.contains("connection closed before") {
        return cannot("the connection was closed without an answer".to_owned()).next(which(context));
    }
    if let Some(kind) = io_kind(error) {
        match kind {
            io::ErrorKind::ConnectionRefused => {
                return cannot("connection refused: nothing listens there, is the cluster running?".to_owned())
                    .next(which(context));
            }
            io::ErrorKind::TimedOut => {
                return cannot("it does not answer: check VPN and firewall".to_owned()).next(which(context));
            }
            _ => {}
        }
    }
    if lower.contains("certificate") || lower.contains("unknownissuer") {
        return cannot(format!("its certificate is not trusted: {said}"))
            .next("kubectl config view --minify --raw  (compare certificate-authority-data)");
    }
    if lower.contains("dns") || lower.contains("lookup") || lower.contains("name or service not known") {
        return cannot(format!("its name is unknown: {said}")).next(which(context));
    }
    cannot(said).next(which(context))
}

/// Returns the error for a server that is given as `foo` instead of `https://foo`.
pub fn server_without_scheme(server: &str) -> Error {
    Error::failed(format!(
        "invalid server \"{server}\": the URL needs a scheme, as in https://{server}"
    ))
    .next("kubectl config view --minify")
}

/// Whether a request that got no answer may have reached the API server: there was a connection to it.
pub fn may_have_arrived(error: &kube::Error) -> bool {
    if !matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
        return false;
    }
    let said = innermost(error).to_lowercase();
    let never = [
        "certificate",
        "unknownissuer",
        "dns",
        "lookup",
        "name or service not known",
    ];
    let kind = io_kind(error);
    !never.iter().any(|word| said.contains(word))
        && !matches!(kind, Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut))
}

/// Returns why the login program failed. Its own output is above, unless it could not prompt.
fn login(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(source) => format!("the login program does not start: {}", system_error(source)),
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.lines().rfind(|line| !line.trim().is_empty());
            let code = out
                .status
                .code()
                .map_or_else(String::new, |code| format!(" with exit code {code}"));
            let ended = format!("the program that logs in ended{code}");
            said.map_or(ended.clone(), |said| format!("{ended}: {}", said.trim()))
        }
        other => innermost(other),
    }
}

/// Returns the command that shows which cluster was meant.
fn which(context: Option<&str>) -> &'static str {
    context.map_or_else(
        || "kubectl config view --minify",
        // The flags that chose the context are repeated in suggested commands.
        |_| "kubectl cluster-info",
    )
}

fn links<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let link = next?;
        next = link.source();
        Some(link)
    })
}

fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    links(error)
        .filter_map(|e| e.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .last()
}

fn find<'e, E: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e E> {
    links(error).find_map(|e| e.downcast_ref::<E>())
}

/// The last error of a chain is what happened, the others are where.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    links(error).last().map(ToString::to_string).unwrap_or_default()
}

fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in links(error).map(ToString::to_string) {
        // Many errors print their source themselves.
        if !parts.iter().any(|before| before.contains(&part)) {
            parts.push(part);
        }
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    #[test]
    fn refused_connection_names_the_address() {
        let refused = kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        insta::assert_snapshot!(unreachable(&refused, "https://127.0.0.1:6443", Some("dev")).text(&RenderOptions::default()), @r"
        error: cannot reach the cluster at https://127.0.0.1:6443
          why:  connection refused: nothing listens there, is the cluster running?
          next: kubectl cluster-info
        ");
    }

    #[test]
    fn missing_kubeconfig_is_reported_with_the_searched_paths() {
        let missing = KubeconfigError::ReadConfig(io::ErrorKind::NotFound.into(), "/home/jane/.kube/config".into());
        insta::assert_snapshot!(kubeconfig(&missing, "~/.kube/config").text(&RenderOptions::default()), @r"
        error: no cluster is configured: /home/jane/.kube/config does not exist
          next: export KUBECONFIG=FILE
                (or add --kubeconfig=FILE)
        ");
    }
}
