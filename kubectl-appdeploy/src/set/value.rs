//! `set image`, `set host`, `set port`: the names, and last the value.

use crd::Kind;
use model::{NextCommand, command};
use serde_json::{Value, json};

use crate::change::{self, Door, Flags, Verb, pod_of, put};
use crate::connection::KubeArgs;
use crate::error::{Error, Result};
use crate::selection::Selection;
use crate::ui::Ui;
use crate::words::{self, Words};

const IMAGE_EXAMPLES: &str = "\
Examples:
  # The next version; return when all pods run it
  {command} set image {name} ghcr.io/acme/shop:1.5 --wait

  # Two at once
  {command} set image {name} {other} ghcr.io/acme/shop:1.5

  # All {many} of a team; see what would be written
  {command} set image -l team=shop nginx:1.27 \\
    --dry-run=client -o yaml";

const HOST_EXAMPLES: &str = "\
Examples:
  # Answer at a host of your own
  {command} set host {name} shop.example.com

  # Answer at <name>.<namespace> again
  {command} set host {name} -";

const PORT_EXAMPLES: &str = "\
Examples:
  # The container listens on another port
  {command} set port {name} 8080

  # Make a worker of it, which nobody can reach: - takes the port away
  {command} set port {name} -";

/// The flags of `set image`.
#[derive(Debug, clap::Args)]
#[command(after_help = IMAGE_EXAMPLES)]
pub struct ImageArgs {
    /// Names of {many}, and last the image
    #[arg(value_names = ["NAME", "IMAGE"], num_args = 1.., required = true)]
    words: Vec<String>,
    #[command(flatten)]
    rest: Rest,
}

/// The flags of `set host`.
#[derive(Debug, clap::Args)]
#[command(after_help = HOST_EXAMPLES)]
pub struct HostArgs {
    /// Names of {many}, and last the host; - takes it away
    #[arg(value_names = ["NAME", "HOST"], num_args = 1.., required = true)]
    words: Vec<String>,
    #[command(flatten)]
    rest: Rest,
}

/// The flags of `set port`.
#[derive(Debug, clap::Args)]
#[command(after_help = PORT_EXAMPLES)]
pub struct PortArgs {
    /// Names of {many}, and last the port; - takes it away
    #[arg(value_names = ["NAME", "PORT"], num_args = 1.., required = true)]
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

/// The ways to mean more than those that are named.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Others {
    /// The {many} with these labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "all")]
    selector: Option<String>,
    /// All {many} of the namespace
    #[arg(long)]
    all: bool,
}

impl Others {
    /// Returns the selection of these names, or of what the flags say.
    pub fn select(&self, names: Vec<String>) -> Result<Selection> {
        let flag = match (&self.selector, self.all) {
            (Some(_), _) => "-l",
            (None, true) => "--all",
            (None, false) => "",
        };
        match names.as_slice() {
            [name, ..] if !flag.is_empty() => {
                Err(Error::usage(format!("{name} is named beside {flag}: nothing was done"))
                    .why("either some are named, or they are selected with -l or --all"))
            }
            _ => Ok(Selection {
                names,
                selector: self.selector.clone(),
                all: self.all,
            }),
        }
    }
}

/// What is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Image,
    Host,
    Port,
}

/// A field, for whom, and to what.
pub struct Setting {
    what: What,
    words: Vec<String>,
    rest: Rest,
}

impl ImageArgs {
    /// Returns what is to be set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Image,
            words: self.words,
            rest: self.rest,
        }
    }
}

impl HostArgs {
    /// Returns what is to be set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Host,
            words: self.words,
            rest: self.rest,
        }
    }
}

impl PortArgs {
    /// Returns what is to be set.
    pub fn value(self) -> Setting {
        Setting {
            what: What::Port,
            words: self.words,
            rest: self.rest,
        }
    }
}

/// Runs the verb.
pub async fn run(setting: Setting, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let Setting { what, words, rest } = setting;
    let (which, value) = what.split(kind, words, &rest.others)?;
    let cluster = kube.connect().await?.about(kind);
    let verb = Verb {
        example: what.example(),
        done: what.done(),
        door: Door::Object,
        guarded: false,
        edit: &|object| {
            what.put(kind, object, value.clone());
            Ok(())
        },
    };
    change::run(&cluster, &which, rest.flags, verb, ui).await
}

impl What {
    const fn word(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Host => "host",
            Self::Port => "port",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Image => "image updated",
            Self::Host => "host updated",
            Self::Port => "port updated",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Image => "set image {name} nginx:1.27",
            Self::Host => "set host {name} shop.example.com",
            Self::Port => "set port {name} 8080",
        }
    }

    /// Takes the words apart: who is meant, and the value, nothing for none.
    fn split(self, kind: Kind, mut words: Vec<String>, others: &Others) -> Result<(Selection, Option<Value>)> {
        let text = words.pop().unwrap_or_default();
        let example = || words::of(kind).example(self.example());
        if self == Self::Host && kind == Kind::PodSet {
            return Err(Error::usage("a pod set has no host: nothing was done")
                .why("its pods are reached through a Service of your own; an app has a Service and an Ingress"));
        }
        let which = others.select(words)?;
        if which.is_empty() {
            let Words { one, .. } = words::of(kind);
            let error = Error::usage(format!("{text} stands alone: name the {one} and the {}", self.word()));
            let value = self.word().to_uppercase();
            let command = NextCommand::from(words::of(kind).command).and("set").and(self.word());
            // An image has a tag or a registry, a host has dots, and a port is a number: no name has any of it.
            return Err(
                error.next(if text.contains([':', '/', '.']) || text.parse::<u16>().is_ok() {
                    command.and(command!("NAME {}", text))
                } else {
                    command.and(command!("{} {}", text, value))
                }),
            );
        }
        let value = match self {
            Self::Host | Self::Port if text == "-" => None,
            Self::Port => Some(json!(text.parse::<i32>().map_err(|_| {
                Error::usage(format!("{text} is no port: nothing was done")).next(example())
            })?)),
            Self::Image | Self::Host if text.contains('=') => {
                return Err(Error::usage(format!("{text} is no {}: nothing was done", self.word()))
                    .why(format!("the names stand first, and the {} last", self.word()))
                    .next(example()));
            }
            Self::Image | Self::Host => Some(json!(text)),
        };
        Ok((which, value))
    }

    fn put(self, kind: Kind, object: &mut Value, value: Option<Value>) {
        let fields = match self {
            Self::Host => &mut object["spec"],
            Self::Image | Self::Port => pod_of(kind, object),
        };
        put(fields, self.word(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Look;

    fn split(what: What, kind: Kind, words: &[&str], all: bool) -> String {
        let words = words.iter().map(ToString::to_string).collect();
        let others = Others { selector: None, all };
        match what.split(kind, words, &others) {
            Ok((which, value)) => format!("{:?} {}", which.names, value.unwrap_or_default()),
            Err(error) => error.text(&Look::default()),
        }
    }

    #[test]
    fn the_value_stands_last() {
        use What::{Host, Image, Port};
        let said = [
            split(Image, Kind::AppDeploy, &["shop", "blog", "nginx:1.27"], false),
            split(Image, Kind::AppDeploy, &["nginx:1.27"], true),
            split(Host, Kind::AppDeploy, &["shop", "-"], false),
            split(Port, Kind::PodSet, &["workers", "8080"], false),
            split(Image, Kind::AppDeploy, &["shop"], false),
            split(Image, Kind::AppDeploy, &["nginx:1.27"], false),
            split(Image, Kind::AppDeploy, &["shop", "app=nginx"], false),
            split(Image, Kind::AppDeploy, &["shop", "nginx"], true),
            split(Port, Kind::PodSet, &["workers", "http"], false),
            split(Host, Kind::PodSet, &["workers", "a.example.com"], false),
        ];
        insta::assert_snapshot!(said.join("\n"), @r#"
        ["shop", "blog"] "nginx:1.27"
        [] "nginx:1.27"
        ["shop"] null
        ["workers"] 8080
        error: shop stands alone: name the app and the image
          next: kubectl appdeploy set image shop IMAGE
        error: nginx:1.27 stands alone: name the app and the image
          next: kubectl appdeploy set image NAME nginx:1.27
        error: app=nginx is no image: nothing was done
          why:  the names stand first, and the image last
          next: kubectl appdeploy set image shop nginx:1.27
        error: shop is named beside --all: nothing was done
          why:  either some are named, or they are selected with -l or --all
        error: http is no port: nothing was done
          next: kubectl appdeploy podset set port workers 8080
        error: a pod set has no host: nothing was done
          why:  its pods are reached through a Service of your own; an app has a Service and an Ingress
        "#);
    }

    #[test]
    fn a_field_is_set_or_taken_away_where_its_kind_has_it() {
        let mut set = json!({"spec": {"template": {"image": "a", "port": 80}}});
        What::Image.put(Kind::PodSet, &mut set, Some(json!("b")));
        What::Port.put(Kind::PodSet, &mut set, None);
        assert_eq!(set, json!({"spec": {"template": {"image": "b"}}}));
        let mut app = json!({"spec": {"image": "a", "host": "x"}});
        What::Host.put(Kind::AppDeploy, &mut app, None);
        assert_eq!(app, json!({"spec": {"image": "a"}}));
    }
}
