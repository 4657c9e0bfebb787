//! Where the values of an argument come from.

use crate::installation::check::code::Code;

/// Where values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Names of the command's kind.
    Objects,
    /// Queues of the namespace.
    Queues,
    /// Pods of the named one.
    Pods,
    /// Containers in the pods of the named one.
    Containers,
    /// Revisions of the named one.
    Revisions,
    /// Namespaces of the cluster.
    Namespaces,
    /// Deployments of the namespace.
    Deployments,
    /// Secrets of the namespace.
    Secrets,
    /// Ingress classes of the cluster.
    IngressClasses,
    /// Contexts of the kubeconfig.
    Contexts,
    /// Clusters of the kubeconfig.
    Clusters,
    /// Users of the kubeconfig.
    Users,
    /// Files of this machine.
    Files,
    /// These words.
    Words(&'static [&'static str]),
    /// Unknown: the user has to type it.
    Free,
}

/// Arguments whose values do not match their name in the help, by the verb (empty for any) and the ID of the argument.
const ARGUMENTS: &[(&str, &str, Source)] = &[
    ("create", "name", Source::Free),
    ("adopt", "name", Source::Deployments),
    ("create", "type_", Source::Words(&["Standard", "FIFO"])),
    ("create", "adoption_policy", Source::Words(&["Never", "IfExists"])),
    ("create", "deletion_policy", Source::Words(&["Delete", "Retain"])),
    ("", "to_revision", Source::Revisions),
    ("", "revision", Source::Revisions),
    ("", "namespace", Source::Namespaces),
    ("", "watch_namespace", Source::Namespaces),
    ("", "context", Source::Contexts),
    ("", "cluster", Source::Clusters),
    ("", "user", Source::Users),
    ("", "expose", Source::Words(&["public", "cluster"])),
    (
        "",
        "image_pull_policy",
        Source::Words(&["Always", "IfNotPresent", "Never"]),
    ),
    ("", "on_config_change", Source::Words(&["Ignore", "Restart"])),
    ("", "rollout", Source::Words(&["RollingUpdate", "Recreate"])),
    ("", "security_profile", Source::Words(&["baseline", "restricted"])),
];

/// Where values come from, by their name in the help. An argument that has a list of its own needs no line here.
const VALUES: &[(&str, Source)] = &[
    ("NAME", Source::Objects),
    ("NAME=IMAGE", Source::Objects),
    ("NAME=HOST", Source::Objects),
    ("NAME=PORT", Source::Objects),
    ("NAME=ACCOUNT", Source::Objects),
    ("NAME=TYPE", Source::Objects),
    ("POD", Source::Pods),
    ("CONTAINER", Source::Containers),
    ("REVISION", Source::Revisions),
    ("NAMESPACE", Source::Namespaces),
    ("DEPLOYMENT", Source::Deployments),
    ("SECRET", Source::Secrets),
    ("QUEUE", Source::Queues),
    ("CLASS", Source::IngressClasses),
    ("CODES", Source::Words(&Code::NAMES)),
    ("FILE", Source::Files),
    ("DIR", Source::Files),
    ("LEVEL", Source::Words(&["error", "warn", "info", "debug", "trace"])),
    ("BOOL", Source::Words(&["true", "false"])),
];

/// Values that can't be completed.
const FREE: &[&str] = &[
    "ACCOUNT",
    "AMOUNTS",
    "ARG",
    "CODES",
    "COMMAND",
    "DURATION",
    "GROUP",
    "HOST",
    "IMAGE",
    "IP",
    "KEY=VALUE",
    "KEY[=VALUE][:EFFECT]",
    "KEYS",
    "KIND/NAME",
    "LABELS",
    "LINES",
    "N",
    "N|P%",
    "NAME=VALUE",
    "PATH",
    "PORT",
    "PORTS",
    "REGEX",
    "REGION",
    "SUFFIXES",
    "TEXT",
    "TOKEN",
    "TYPES",
    "UID",
    "URL",
    "USER",
    "WHAT",
    "[NAME=]SOURCE:PATH",
];

/// Returns the source of an argument's values; `None` if it is not in the table.
pub fn of(path: &[String], id: &str, name: &str) -> Option<Source> {
    let verb = path.last().map_or("", String::as_str);
    let argument = ARGUMENTS
        .iter()
        .find(|(of, argument, _)| (of.is_empty() || *of == verb) && *argument == id);
    let value = || {
        VALUES
            .iter()
            .find(|(value, _)| *value == name)
            .map(|(_, source)| *source)
    };
    let free = || FREE.contains(&name).then_some(Source::Free);
    argument.map(|(_, _, source)| *source).or_else(value).or_else(free)
}
