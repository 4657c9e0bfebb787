//! `kubectl appdeploy create`: an app from flags, or from answers.

mod ask;
mod spec;

use std::time::Duration;

use crd::AppDeploy;
use kube::Resource as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use crate::connection::{Cluster, KubeArgs, MANAGER};
use crate::error::{Error, Result};
use crate::output::{self, ChangeArgs, DryRun};
use crate::ui::Ui;
use crate::wait::{self, Deadline};
use crate::{app, duration};

const EXAMPLES: &str = "\
Examples:
  # Answer questions
  kubectl appdeploy create

  # A web application, reachable at http://shop.<namespace>
  kubectl appdeploy create shop --image=ghcr.io/acme/shop:1.4 --port=8080

  # With a host of your own, three pods and a health check; return when it is ready
  kubectl appdeploy create shop --image=ghcr.io/acme/shop:1.4 --port=8080 \\
    --host=shop.example.com --replicas=3 --health-path=/healthz --wait

  # A worker: no port, no Service, no Ingress; what follows -- are its arguments
  kubectl appdeploy create mailer --image=ghcr.io/acme/mailer --env=QUEUE=mail -- --verbose

  # Write it down instead of creating it
  kubectl appdeploy create shop --image=nginx --port=80 --dry-run=client -o yaml > shop.yaml";

/// The flags of `create`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the app
    name: Option<String>,
    /// Return when the app is ready; exit code 3 when it can't become so, 4 when it takes too long
    #[arg(long)]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    spec: spec::SpecArgs,
}

/// Runs the verb.
pub async fn run(mut args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let asked = args.spec.is_empty() && Ui::can_ask();
    // A dry run on this side needs no cluster, unless it is the only one to know the namespace.
    let cluster = match kube.connect().await {
        Ok(cluster) => Some(cluster),
        Err(_) if args.change.dry_run == DryRun::Client => None,
        Err(error) => return Err(error),
    };
    if asked {
        if let Some(cluster) = &cluster
            && args.change.dry_run != DryRun::Client
        {
            // Nobody should answer five questions to learn that it was in vain.
            check(cluster).await?;
        }
        let namespace = cluster.as_ref().map_or("default", |cluster| cluster.namespace.as_str());
        args.name = Some(ask::name(args.name.as_deref(), namespace)?);
        ask::spec(args.name.as_deref().unwrap_or_default(), namespace, &mut args.spec)?;
    }
    let app = args.app(kube, cluster.as_ref())?;
    if asked && !ask::confirm(&app, args.change.dry_run)? {
        ui.say("Nothing was created.");
        return Ok(());
    }
    let name = args.name.clone().unwrap_or_default();
    let (Some(cluster), true) = (&cluster, args.change.dry_run != DryRun::Client) else {
        return args.change.tell(ui, &app::title(&name), "created", &plain(&app)?);
    };
    create(&args, cluster, &name, &app, ui).await
}

impl Args {
    /// Returns the app that the flags mean, if it is a valid one.
    fn app(&self, kube: &KubeArgs, cluster: Option<&Cluster>) -> Result<AppDeploy> {
        const EXAMPLE: &str = "kubectl appdeploy create shop --image=nginx --port=80";
        let missing = |what: &str| Error::usage(format!("create needs {what}")).next(EXAMPLE);
        let (name, image) = match (&self.name, &self.spec.image) {
            (None, None) => return Err(missing("a name and an image")),
            (None, Some(_)) => return Err(missing("a name")),
            (Some(_), None) => return Err(missing("an image: --image=NAME")),
            (Some(name), Some(image)) => (name, image),
        };
        let namespace = cluster.map_or_else(|| kube.namespace.clone(), |cluster| Some(cluster.namespace.clone()));
        let app = self.spec.app(name, image, namespace)?;
        spec::validate(&app)?;
        Ok(app)
    }
}

/// Finds out whether the API is there, before anybody is asked anything.
async fn check(cluster: &Cluster) -> Result<()> {
    let api = app::api(&cluster.client, Some(&cluster.namespace));
    match cluster.attempt(api.list(&ListParams::default().limit(1))).await? {
        // Whoever may create but not list finds out in the end.
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(()),
        Err(source) => Err(cluster.explain(source)),
        Ok(_) => Ok(()),
    }
}

async fn create(args: &Args, cluster: &Cluster, name: &str, app: &AppDeploy, ui: &mut Ui) -> Result<()> {
    let body = output::json(&plain(app)?)?;
    let created = cluster.call(post(cluster, body, args.change.dry_run)).await?;
    args.change
        .tell(ui, &app::title(name), "created", &output::presentable(&created))?;
    if !args.change.dry_run.is_real() {
        return Ok(());
    }
    if !args.wait {
        if args.change.output.is_none() {
            ui.next(&format!("kubectl appdeploy status {name}{}", cluster.flag()));
        }
        return Ok(());
    }
    let ready = wait::ready(cluster, &cluster.namespace, name, Deadline::after(args.timeout), ui).await?;
    let url = ready.status.as_ref().and_then(|status| status.url.as_deref());
    ui.say(&url.map_or_else(|| format!("{name} is ready"), |url| format!("{name} is ready: {url}")));
    Ok(())
}

/// Creates an app and has the server refuse, instead of drop, a field that its schema is too old for.
async fn post(cluster: &Cluster, body: String, dry_run: DryRun) -> kube::Result<DynamicObject> {
    let path = AppDeploy::url_path(&(), Some(&cluster.namespace));
    let dry = if dry_run == DryRun::Server { "&dryRun=All" } else { "" };
    let request = http::Request::post(format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict{dry}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.into_bytes())
        .map_err(kube::Error::HttpError)?;
    cluster.client.request(request).await
}

/// Returns the app as a person would write it down: no status, no defaults spelled out.
fn plain(app: &AppDeploy) -> Result<Value> {
    let mut value =
        serde_json::to_value(app).map_err(|source| Error::failed(format!("cannot write the app: {source}")))?;
    let object = value.as_object_mut();
    if let Some(object) = object {
        object.remove("status");
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            if spec.get("expose").is_some_and(|expose| expose == "Ingress") {
                spec.remove("expose");
            }
            if spec.get("securityProfile").is_some_and(|profile| profile == "baseline") {
                spec.remove("securityProfile");
            }
        }
    }
    Ok(value)
}
