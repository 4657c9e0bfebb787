//! `kubectl appdeploy open`: prints the URL of an app and opens it in a browser.

use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use model::{NextCommand, command};

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::error::{Error, Result, system_error};
use crate::resource::selection;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Print the URL of an app and open it
  kubectl appdeploy open shop

  # Only print the URL, for a script
  curl $(kubectl appdeploy open shop --browser=false)";

/// How long to wait for a connection to the ingress controller.
const REACHABLE: Duration = Duration::from_secs(2);

/// The flags of `open`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of an app
    #[arg(value_name = "NAME")]
    name: String,
    /// Open a browser; default: only on a terminal with a desktop
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true
    )]
    browser: Option<bool>,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(crd::Kind::AppDeploy);
    let name = selection::name(cluster.kind, &args.name)?;
    let object = cluster.get(name).await?;
    let workload = Workload::read(cluster.kind, &object);
    let Some(url) = workload.address() else {
        return Err(nowhere(&cluster, &workload));
    };
    ui.print(url)?;
    let route = Route::of(url, &workload);
    let found = match &route {
        Some(route) if !route.is_inside => resolve(route).await,
        _ => Vec::new(),
    };
    if let Some((why, next)) = detour(route.as_ref(), url, &found, &workload, cluster.flag()) {
        let (why, next) = match route.as_ref().filter(|route| !route.is_inside) {
            Some(route) if !route.is_reachable().await => (
                format!("{why}, but not on port {}", route.port),
                command!("kubectl appdeploy port-forward {}", name).and(cluster.flag()),
            ),
            _ => (why, next),
        };
        ui.eprintln(&why);
        ui.next(next);
        return Ok(());
    }
    if route.is_some() && args.browser.unwrap_or_else(|| ui.screen() && has_desktop()) {
        return browse(url);
    }
    Ok(())
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    host: String,
    port: u16,
    /// The address of the ingress controller, if it is known.
    address: Option<String>,
    /// Whether it is reachable only from inside the cluster.
    is_inside: bool,
}

impl Route {
    fn of(url: &str, workload: &Workload) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let Workload::App(app) = workload else { return None };
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return None,
        };
        // The address becomes part of a command: it must not have a meaning for a shell.
        let is_plain = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c));
        Some(Self {
            host: uri.host()?.to_owned(),
            port: uri.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            address: app
                .status
                .as_ref()
                .and_then(|status| status.address())
                .filter(is_plain)
                .map(str::to_owned),
            is_inside: !app.spec.is_public(),
        })
    }

    /// Whether the ingress controller accepts connections from this machine. A local cluster often has it at another port.
    async fn is_reachable(&self) -> bool {
        let Some(address) = &self.address else { return true };
        let connect = tokio::net::TcpStream::connect((address.as_str(), self.port));
        matches!(tokio::time::timeout(REACHABLE, connect).await, Ok(Ok(_)))
    }
}

/// Resolves the host as a browser on this machine does.
async fn resolve(route: &Route) -> Vec<IpAddr> {
    let found = tokio::net::lookup_host((route.host.as_str(), route.port)).await;
    found
        .map(|all| all.map(|address| address.ip()).collect())
        .unwrap_or_default()
}

/// Returns why a browser on this machine can't reach the app, and a command that can.
fn detour(
    route: Option<&Route>,
    url: &str,
    found: &[IpAddr],
    workload: &Workload,
    flag: NextCommand,
) -> Option<(String, NextCommand)> {
    let Route {
        host,
        port,
        address,
        is_inside,
    } = route?;
    if *is_inside {
        let why = "it can be reached only from inside the cluster".to_owned();
        return Some((
            why,
            command!("kubectl appdeploy port-forward {}", workload.name()).and(flag),
        ));
    }
    let Some(address) = address else {
        let why = "the ingress controller has not published an address yet".to_owned();
        return Some((why, command!("kubectl appdeploy status {}", workload.name()).and(flag)));
    };
    let ip = address.parse::<IpAddr>().ok();
    let why = match (found, ip) {
        ([], _) => format!("this machine can't resolve {host}; the ingress controller answers at {address}"),
        (found, Some(ip)) if !found.contains(&ip) => format!(
            "this machine resolves {host} to {}; the ingress controller answers at {address}",
            found[0]
        ),
        _ => return None,
    };
    let lead = if ip.is_some() {
        command!("curl --resolve {}:{}:{}", host, port, address)
    } else {
        command!("curl --connect-to {}:{}:{}:{}", host, port, address, port)
    };
    Some((why, lead.and(command!("{}", url))))
}

fn nowhere(cluster: &Cluster, workload: &Workload) -> Error {
    let (name, flag) = (workload.name(), cluster.flag());
    let error = Error::failed(format!("{name} has no URL"));
    if workload.pod().container.port.is_none() {
        return error
            .why("it has no port, so it has no Service and no Ingress")
            .next(command!("kubectl appdeploy set port {}=PORT", name).and(flag));
    }
    let why = workload.explanation().map(|(text, _)| text);
    why.into_iter()
        .fold(error, Error::why)
        .next(command!("kubectl appdeploy status {}", name).and(flag))
}

/// Whether this machine has a desktop.
fn has_desktop() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(target_os = "macos", windows)) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens the URL in the default browser.
fn browse(url: &str) -> Result<()> {
    open::that_detached(url).map_err(|source| Error::failed("cannot open a browser").why(system_error(&source)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::status::list::tests::healthy;

    fn told(address: Option<&str>, found: &[&str], inside: bool) -> Option<(String, String)> {
        let route = Route {
            host: "shop.example.com".to_owned(),
            port: 443,
            address: address.map(ToOwned::to_owned),
            is_inside: inside,
        };
        let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
        let found = detour(
            Some(&route),
            "https://shop.example.com/",
            &found,
            &healthy(),
            "-n a".into(),
        );
        found.map(|(why, next)| (why, next.to_string()))
    }

    #[test]
    fn host_that_leads_elsewhere_is_reported_with_a_command_that_works() {
        assert_eq!(told(Some("10.0.0.7"), &["10.0.0.7"], false), None);
        assert_eq!(told(Some("lb.example.com"), &["10.9.9.9"], false), None);
        let (why, next) = told(Some("10.0.0.7"), &[], false).unwrap();
        assert_eq!(
            why,
            "this machine can't resolve shop.example.com; the ingress controller answers at 10.0.0.7"
        );
        assert_eq!(
            next,
            "curl --resolve shop.example.com:443:10.0.0.7 https://shop.example.com/"
        );
        let (why, _) = told(Some("10.0.0.7"), &["1.2.3.4"], false).unwrap();
        assert!(
            why.starts_with("this machine resolves shop.example.com to 1.2.3.4; "),
            "{why}"
        );
        let (_, next) = told(Some("lb.example.com"), &[], false).unwrap();
        assert_eq!(
            next,
            "curl --connect-to shop.example.com:443:lb.example.com:443 https://shop.example.com/"
        );
        let (_, next) = told(None, &[], true).unwrap();
        assert_eq!(next, "kubectl appdeploy port-forward shop -n a");
    }

    #[test]
    fn url_is_parsed() {
        let route = Route::of("http://shop.default:8080/cart", &healthy()).unwrap();
        assert_eq!(
            (route.host.as_str(), route.port, route.is_inside),
            ("shop.default", 8080, false)
        );
        assert_eq!(route.address.as_deref(), Some("10.0.0.7"));
    }
}
