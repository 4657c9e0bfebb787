//! `set image`, `set host`, `set port`, `set serviceaccount`, `set rollout`: each name with its value, as `shop=nginx:1.27`.
//! Names and a value next to each other could be misread: `set image shop blog` would run the image `blog`.

use std::collections::BTreeMap;

use crd::Kind;
use model::desired::CONTAINER;
use model::{NextCommand, command};
use serde_json::{Value, json};

use crate::cluster::connection::KubeArgs;
use crate::cluster::kind_info;
use crate::commands::app::choice;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::output::formats;
use crate::resource::fields::{non_empty, pod_of, put};
use crate::resource::selection::{self, Selection};
use crate::terminal::ui::Ui;

const IMAGE_EXAMPLES: &str = "\
Examples:
  # Set a new version, and wait until all pods run it
  {command} set image {name}=ghcr.io/acme/shop:1.5 --wait

  # Set the images of two {many}
  {command} set image {name}=nginx:1.27 {other}=nginx:1.28

  # Set the image of a sidecar or an init container
  {command} set image {name}=envoyproxy/envoy:v1.35 -c proxy

  # Set the image of all {many} of a team; dry run
  {command} set image -l team=shop nginx:1.27 \\
    --dry-run=client -o yaml";

const HOST_EXAMPLES: &str = "\
Examples:
  # Use your own host
  {command} set host {name}=shop.example.com

  # Use the default host again: <name>.<namespace>
  {command} set host {name}-";

const PORT_EXAMPLES: &str = "\
Examples:
  # Set the port that the container listens on
  {command} set port {name}=8080

  # Remove the port: a worker has no Service and no Ingress
  {command} set port {name}-";

const SERVICE_ACCOUNT_EXAMPLES: &str = "\
Examples:
  # Run the pods as a ServiceAccount of the namespace
  {command} set serviceaccount {name}=shop

  # Use the ServiceAccount default again
  {command} set serviceaccount {name}-";

const ROLLOUT_EXAMPLES: &str = "\
Examples:
  # End all old pods before new ones are started
  {command} set rollout {name}=Recreate

  # Start new pods first again, which is the default
  {command} set rollout {name}-";

/// The flags of `set image`.
#[derive(Debug, clap::Args)]
#[command(after_help = IMAGE_EXAMPLES)]
pub struct ImageArgs {
    /// NAME=IMAGE for each of the {many}; only IMAGE with -l or --all
    #[arg(value_name = "NAME=IMAGE", required = true)]
    words: Vec<String>,
    /// Init container or sidecar to set the image of; default: the application container
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    #[command(flatten)]
    rest: Rest,
}

/// The flags of `set host`.
#[derive(Debug, clap::Args)]
#[command(after_help = HOST_EXAMPLES)]
pub struct HostArgs {
    /// NAME=HOST for each of the {many}, NAME- to remove the host; only HOST with -l or --all
    #[arg(value_name = "NAME=HOST", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    rest: Rest,
}

/// The flags of `set port`.
#[derive(Debug, clap::Args)]
#[command(after_help = PORT_EXAMPLES)]
pub struct PortArgs {
    /// NAME=PORT for each of the {many}, NAME- to remove the port; only PORT with -l or --all
    #[arg(value_name = "NAME=PORT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    rest: Rest,
}

/// The flags of `set serviceaccount`.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVICE_ACCOUNT_EXAMPLES)]
pub struct ServiceAccountArgs {
    /// NAME=ACCOUNT for each of the {many}, NAME- to remove the account; only ACCOUNT with -l or --all
    #[arg(value_name = "NAME=ACCOUNT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    rest: Rest,
}

/// The flags of `set rollout`.
#[derive(Debug, clap::Args)]
#[command(after_help = ROLLOUT_EXAMPLES)]
pub struct RolloutArgs {
    #[arg(
        value_name = "NAME=TYPE",
        required = true,
        help = "NAME=TYPE for each of the {many}, NAME- for the default; only TYPE with -l or --all. RollingUpdate starts new pods first, Recreate ends all old pods first"
    )]
    words: Vec<String>,
    #[command(flatten)]
    rest: Rest,
}

/// What all of them have.
#[derive(Debug, clap::Args)]
struct Rest {
    #[command(flatten)]
    others: Others,
    #[command(flatten)]
    flags: Flags,
}

/// The flags that select objects other than by name.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Others {
    /// Select {many} by labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = selection::selector, conflicts_with = "all")]
    selector: Option<String>,
    /// Select all {many} of the namespace
    #[arg(long)]
    all: bool,
}

impl Others {
    /// Whether the flags select objects.
    const fn are_selected(&self) -> bool {
        self.selector.is_some() || self.all
    }

    /// Returns the selection by these names, or by the flags.
    pub fn select(&self, names: Vec<String>) -> Result<Selection> {
        let flag = match (&self.selector, self.all) {
            (Some(_), _) => "-l",
            (None, true) => "--all",
            (None, false) => "",
        };
        match names.as_slice() {
            [name, ..] if !flag.is_empty() => Err(Error::usage(format!(
                "{name} can't be combined with {flag}: nothing was done"
            ))
            .why("either some are named, or they are selected with -l or --all")),
            _ => Ok(Selection {
                names,
                selector: self.selector.clone(),
                all: self.all,
            }),
        }
    }
}

/// The objects and values to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Image,
    Host,
    Port,
    ServiceAccount,
    Rollout,
}

/// A field, the names of objects, and its value.
pub struct Setting {
    what: What,
    words: Vec<String>,
    /// The init container or sidecar whose image is set.
    container: Option<String>,
    rest: Rest,
}

impl ImageArgs {
    /// Returns the values to set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Image,
            words: self.words,
            container: self.container.filter(|name| name != CONTAINER),
            rest: self.rest,
        }
    }
}

impl HostArgs {
    /// Returns the values to set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Host,
            words: self.words,
            container: None,
            rest: self.rest,
        }
    }
}

impl PortArgs {
    /// Returns the values to set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Port,
            words: self.words,
            container: None,
            rest: self.rest,
        }
    }
}

impl ServiceAccountArgs {
    /// Returns the values to set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::ServiceAccount,
            words: self.words,
            container: None,
            rest: self.rest,
        }
    }
}

impl RolloutArgs {
    /// Returns the values to set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Rollout,
            words: self.words,
            container: None,
            rest: self.rest,
        }
    }
}

/// Runs the command.
pub async fn run(setting: Setting, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let Setting {
        what,
        words,
        container,
        rest,
    } = setting;
    let (which, values) = what.split(kind, words, &rest.others, container.as_deref())?;
    let cluster = kube.connect().await?.about(kind);
    let verb = Verb {
        example: what.example(),
        done: what.done(),
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let value = values.of(name).cloned();
            if let Some(container) = &container {
                return put_image(kind, object, container, value, cluster.flag());
            }
            what.put(kind, object, value);
            Ok(())
        },
    };
    change::run(&cluster, &which, rest.flags, verb, ui).await
}

/// Sets the image of an init container or a sidecar.
fn put_image(kind: Kind, object: &mut Value, container: &str, image: Option<Value>, flag: NextCommand) -> Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let pod = pod_of(kind, object);
    let mut known = vec![CONTAINER.to_owned()];
    for field in ["initContainers", "sidecars"] {
        for one in pod.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if one["name"] == container {
                put(one, "image", image);
                return Ok(());
            }
            known.extend(one["name"].as_str().map(ToOwned::to_owned));
        }
    }
    Err(
        Error::failed(format!("{name} has no container {container}: its image was not set"))
            .why(format!("it has {}", formats::some(&known)))
            .next(kind_info::of(kind).verb("describe", &name).and(flag)),
    )
}

/// Sets or removes the type of rollouts, and keeps their other fields.
fn put_rollout_type(spec: &mut Value, type_: Option<Value>) {
    let mut rollout = spec.get("rollout").cloned().unwrap_or_else(|| json!({}));
    put(&mut rollout, "type", type_);
    put(spec, "rollout", non_empty(rollout));
}

/// What each object gets; nothing removes the field.
#[derive(Debug, PartialEq)]
enum Values {
    /// The same for all that are selected.
    All(Option<Value>),
    /// One for each name.
    Each(BTreeMap<String, Option<Value>>),
}

impl Values {
    fn of(&self, name: &str) -> Option<&Value> {
        match self {
            Self::All(value) => value.as_ref(),
            Self::Each(values) => values.get(name)?.as_ref(),
        }
    }
}

impl What {
    const fn word(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Host => "host",
            Self::Port => "port",
            Self::ServiceAccount => "serviceaccount",
            Self::Rollout => "rollout",
        }
    }

    /// Returns the name of the value.
    const fn value_name(self) -> &'static str {
        match self {
            Self::Rollout => "type",
            other => other.word(),
        }
    }

    /// Returns the name of the field.
    const fn field(self) -> &'static str {
        match self {
            Self::ServiceAccount => "serviceAccount",
            other => other.word(),
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Image => "image updated",
            Self::Host => "host updated",
            Self::Port => "port updated",
            Self::ServiceAccount => "serviceaccount updated",
            Self::Rollout => "rollout updated",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Image => "set image {name}=nginx:1.27",
            Self::Host => "set host {name}=shop.example.com",
            Self::Port => "set port {name}=8080",
            Self::ServiceAccount => "set serviceaccount {name}=shop",
            Self::Rollout => "set rollout {name}=Recreate",
        }
    }

    /// Splits the words into names of objects and values.
    fn split(
        self,
        kind: Kind,
        words: Vec<String>,
        others: &Others,
        container: Option<&str>,
    ) -> Result<(Selection, Values)> {
        if self == Self::Host && kind == Kind::PodSet {
            return Err(Error::usage("a pod set has no host: nothing was done")
                .why("its pods are reached through a Service of your own; an app has a Service and an Ingress"));
        }
        if self == Self::Rollout && kind == Kind::PodSet {
            return Err(Error::usage("a pod set has no type of rollout: nothing was done")
                .why("its field maxUnavailable says how many pods are replaced at a time"));
        }
        if others.are_selected() {
            let ([text], false) = (words.as_slice(), words.iter().any(|word| word.contains('='))) else {
                // A name together with a selection.
                others.select(words)?;
                return Err(self.missing(kind, &[], container));
            };
            let value = if text == "-" && self != Self::Image {
                None
            } else {
                Some(self.value(kind, text)?)
            };
            return Ok((others.select(Vec::new())?, Values::All(value)));
        }
        let mut values = BTreeMap::new();
        let mut names = Vec::new();
        for word in &words {
            let (name, value) = match (word.split_once('='), word.strip_suffix('-')) {
                (Some((name, text)), _) if !name.is_empty() && !text.is_empty() => {
                    (name, Some(self.value(kind, text)?))
                }
                (None, Some(name)) if !name.is_empty() && self != Self::Image => (name, None),
                _ => return Err(self.missing(kind, &words, container)),
            };
            if values.insert(selection::name(kind, name)?.to_owned(), value).is_some() {
                return Err(Error::usage(format!("{name} is named twice: nothing was done")));
            }
            names.push(name.to_owned());
        }
        Ok((others.select(names)?, Values::Each(values)))
    }

    /// Reads a value.
    fn value(self, kind: Kind, text: &str) -> Result<Value> {
        match self {
            Self::Port => text.parse::<i32>().map(|port| json!(port)).map_err(|_| {
                Error::usage(format!("invalid port {text:?}: must be a number from 1 to 65535"))
                    .next(kind_info::of(kind).example(self.example()))
            }),
            Self::Image | Self::Host => Ok(json!(text)),
            Self::ServiceAccount => Ok(json!({"name": text})),
            Self::Rollout => choice::rollout_type(text).map(|type_| json!(type_)).map_err(|why| {
                Error::usage(format!("invalid type {text:?}: {why}")).next(kind_info::of(kind).example(self.example()))
            }),
        }
    }

    /// Returns the error for words without a value, or without a name.
    fn missing(self, kind: Kind, words: &[String], container: Option<&str>) -> Error {
        let looks_like_value = |word: &str| word.contains([':', '/', '.']) || word.parse::<u16>().is_ok();
        let (values, names): (Vec<&str>, Vec<&str>) = words
            .iter()
            .map(|word| word.trim_end_matches(['=', '-']))
            .filter(|word| !word.is_empty() && !word.contains('='))
            .partition(|word| looks_like_value(word));
        let lacking = match (names.first(), values.first()) {
            (Some(name), _) => format!("{} missing for {name}", self.value_name()),
            (None, Some(value)) => format!("name missing for {} {value}", self.value_name()),
            (None, None) => format!("name or {} missing", self.value_name()),
        };
        let command = NextCommand::from(kind_info::of(kind).command)
            .and("set")
            .and(self.word());
        let placeholder = self.value_name().to_uppercase();
        let value = values.first().copied().unwrap_or(&placeholder);
        let command = match names.as_slice() {
            [] => command.and(command!("NAME={}", value)),
            names => names
                .iter()
                .fold(command, |command, name| command.and(command!("{}={}", name, value))),
        };
        // Without it, the command would set the image of the application container.
        let command = match container {
            Some(container) => command.and(command!("-c {}", container)),
            None => command,
        };
        Error::usage(format!("{lacking}: nothing was done")).next(command)
    }

    fn put(self, kind: Kind, object: &mut Value, value: Option<Value>) {
        let fields = match self {
            Self::Rollout => return put_rollout_type(&mut object["spec"], value),
            Self::Host => &mut object["spec"],
            // Another image without a template: the command of the default is not for it.
            Self::Image if kind == Kind::PodSet && object["spec"]["template"].is_null() => {
                &mut object["spec"]["template"]
            }
            Self::Image | Self::Port | Self::ServiceAccount => pod_of(kind, object),
        };
        if self == Self::ServiceAccount && value.is_none() {
            // A token needs a ServiceAccount.
            put(fields, "automountServiceAccountToken", None);
        }
        put(fields, self.field(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    fn split(what: What, kind: Kind, words: &[&str], all: bool) -> String {
        split_of(what, kind, words, all, None)
    }

    fn split_of(what: What, kind: Kind, words: &[&str], all: bool, container: Option<&str>) -> String {
        let words = words.iter().map(ToString::to_string).collect();
        let others = Others { selector: None, all };
        match what.split(kind, words, &others, container) {
            Ok((which, Values::All(value))) => format!("{:?} {}", which.names, value.unwrap_or_default()),
            Ok((which, Values::Each(values))) => format!("{:?} {}", which.names, json!(values)),
            Err(error) => error.text(&RenderOptions::default()),
        }
    }

    #[test]
    fn each_name_requires_a_value() {
        use What::{Host, Image, Port, Rollout};
        let said = [
            split(Image, Kind::AppDeploy, &["shop=nginx:1.27", "blog=nginx"], false),
            split(Image, Kind::AppDeploy, &["nginx:1.27"], true),
            split(Host, Kind::AppDeploy, &["-"], true),
            split(Host, Kind::AppDeploy, &["appdeploy/shop-"], false),
            split(Port, Kind::PodSet, &["workers=8080"], false),
            split(Image, Kind::AppDeploy, &["shop", "blog"], false),
            split(Image, Kind::AppDeploy, &["shop"], false),
            split(Image, Kind::AppDeploy, &["shop="], false),
            split(Image, Kind::AppDeploy, &["shop-"], false),
            split(Image, Kind::AppDeploy, &["nginx:1.27"], false),
            split(Image, Kind::AppDeploy, &["shop", "blog", "nginx:1.27"], false),
            split(Image, Kind::AppDeploy, &["shop=a", "shop=b"], false),
            split(Image, Kind::AppDeploy, &["shop=nginx"], true),
            split(Image, Kind::AppDeploy, &["shop", "nginx"], true),
            split(Port, Kind::PodSet, &["workers=http"], false),
            split(Host, Kind::PodSet, &["workers=a.example.com"], false),
            split(Rollout, Kind::AppDeploy, &["shop=recreate", "blog-"], false),
            split(Rollout, Kind::AppDeploy, &["RollingUpdate"], true),
            split(Rollout, Kind::AppDeploy, &["shop=Canary"], false),
            split(Rollout, Kind::PodSet, &["workers=Recreate"], false),
            split_of(Image, Kind::AppDeploy, &["shop"], false, Some("proxy")),
            split_of(Image, Kind::PodSet, &["nginx:1.27"], false, Some("proxy")),
        ];
        insta::assert_snapshot!(said.join("\n"), @r#"
        ["shop", "blog"] {"blog":"nginx","shop":"nginx:1.27"}
        [] "nginx:1.27"
        [] null
        ["appdeploy/shop"] {"shop":null}
        ["workers"] {"workers":8080}
        error: image missing for shop: nothing was done
          next: kubectl appdeploy set image shop=IMAGE blog=IMAGE
        error: image missing for shop: nothing was done
          next: kubectl appdeploy set image shop=IMAGE
        error: image missing for shop: nothing was done
          next: kubectl appdeploy set image shop=IMAGE
        error: image missing for shop: nothing was done
          next: kubectl appdeploy set image shop=IMAGE
        error: name missing for image nginx:1.27: nothing was done
          next: kubectl appdeploy set image NAME=nginx:1.27
        error: image missing for shop: nothing was done
          next: kubectl appdeploy set image shop=nginx:1.27 blog=nginx:1.27
        error: shop is named twice: nothing was done
        error: shop=nginx can't be combined with --all: nothing was done
          why:  either some are named, or they are selected with -l or --all
        error: shop can't be combined with --all: nothing was done
          why:  either some are named, or they are selected with -l or --all
        error: invalid port "http": must be a number from 1 to 65535
          next: kubectl appdeploy podset set port workers=8080
        error: a pod set has no host: nothing was done
          why:  its pods are reached through a Service of your own; an app has a Service and an Ingress
        ["shop", "blog"] {"blog":null,"shop":"Recreate"}
        [] "RollingUpdate"
        error: invalid type "Canary": must be RollingUpdate or Recreate
          next: kubectl appdeploy set rollout shop=Recreate
        error: a pod set has no type of rollout: nothing was done
          why:  its field maxUnavailable says how many pods are replaced at a time
        error: image missing for shop: nothing was done
          next: kubectl appdeploy set image shop=IMAGE -c proxy
        error: name missing for image nginx:1.27: nothing was done
          next: kubectl appdeploy podset set image NAME=nginx:1.27 -c proxy
        "#);
    }

    #[test]
    fn image_of_another_container_is_set_by_its_name() {
        let flag = || command!("-n {}", "blue");
        let other = |image: &str| json!([{"name": "proxy", "image": image}]);
        let init = json!([{"name": "migrate", "image": "a"}]);
        let pod = json!({"image": "a", "initContainers": init, "sidecars": other("a")});
        let mut app = json!({"metadata": {"name": "shop"}, "spec": pod.clone()});
        put_image(Kind::AppDeploy, &mut app, "proxy", Some(json!("b")), flag()).unwrap();
        assert_eq!(
            app["spec"],
            json!({"image": "a", "initContainers": init, "sidecars": other("b")})
        );
        let mut set = json!({"spec": {"template": pod}});
        put_image(Kind::PodSet, &mut set, "migrate", Some(json!("b")), flag()).unwrap();
        assert_eq!(set["spec"]["template"]["initContainers"][0]["image"], "b");
        let before = app.clone();
        let refused = put_image(Kind::AppDeploy, &mut app, "cache", Some(json!("b")), flag()).unwrap_err();
        insta::assert_snapshot!(refused.text(&RenderOptions::default()), @r#"
        error: shop has no container cache: its image was not set
          why:  it has app, migrate, proxy
          next: kubectl appdeploy describe shop -n blue
        "#);
        assert_eq!(app, before);
    }

    #[test]
    fn fields_are_set_and_removed_where_the_kind_has_them() {
        let mut set = json!({"spec": {"template": {"image": "a", "port": 80}}});
        What::Image.put(Kind::PodSet, &mut set, Some(json!("b")));
        What::Port.put(Kind::PodSet, &mut set, None);
        assert_eq!(set, json!({"spec": {"template": {"image": "b"}}}));
        let default = json!({"spec": {}});
        let mut image = default.clone();
        What::Image.put(Kind::PodSet, &mut image, Some(json!("b")));
        assert_eq!(image, json!({"spec": {"template": {"image": "b"}}}));
        let mut port = default;
        What::Port.put(Kind::PodSet, &mut port, Some(json!(80)));
        assert_eq!(port["spec"]["template"]["image"], "busybox", "{port}");
        assert_eq!(port["spec"]["template"]["port"], 80);
        let account = json!({"spec": {"image": "a", "serviceAccount": {"name": "b"}}});
        let mut app = json!({"spec": {"image": "a"}});
        What::ServiceAccount.put(Kind::AppDeploy, &mut app, Some(json!({"name": "b"})));
        assert_eq!(app, account);
        app["spec"]["automountServiceAccountToken"] = json!(true);
        What::ServiceAccount.put(Kind::AppDeploy, &mut app, None);
        assert_eq!(app, json!({"spec": {"image": "a"}}));
        let mut app = json!({"spec": {"image": "a", "rollout": {"maxSurge": 1}}});
        What::Rollout.put(Kind::AppDeploy, &mut app, Some(json!("RollingUpdate")));
        assert_eq!(app["spec"]["rollout"], json!({"type": "RollingUpdate", "maxSurge": 1}));
        let mut app = json!({"spec": {"image": "a", "rollout": {"type": "Recreate"}}});
        What::Rollout.put(Kind::AppDeploy, &mut app, None);
        assert_eq!(app, json!({"spec": {"image": "a"}}));
        let mut app = json!({"spec": {"image": "a", "host": "x"}});
        What::Host.put(Kind::AppDeploy, &mut app, None);
        assert_eq!(app, json!({"spec": {"image": "a"}}));
    }
}
