//! The requirements of `up` and its plan, decided before anything is done.

mod facts;

pub(crate) use facts::{FAKE, gather, may_lower_oom_score};

/// Gigabyte.
const GB: u64 = 1 << 30;
/// Free disk space that a running cluster needs.
const DISK: u64 = GB;
/// Disk space that a build needs for each byte of the program, mostly in Go's caches: 5.5 GB for all programs.
const ROOM_TO_BUILD: u64 = 10;
/// The minimum for trying a build: an earlier one may have filled Go's caches already.
const LEAST_ROOM_TO_BUILD: u64 = 5;
/// Available memory that a cluster with a real node needs.
const MEMORY: u64 = 2 * GB;
/// Available memory below which builds fail.
const MEMORY_TO_BUILD: u64 = 3 * GB;

/// How this user becomes root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The user is root.
    Is,
    /// `sudo` works without a password, or there is a terminal to type it on.
    Sudo,
    /// Not possible.
    No,
}

/// Missing programs of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Programs {
    /// Those that are downloaded.
    pub(crate) fetch: Vec<&'static str>,
    /// Their size.
    pub(crate) fetch_megabytes: u64,
    /// Their server.
    pub(crate) server: String,
    /// The server that has some of those that are built, but does not answer.
    pub(crate) silent: Option<String>,
    /// Those that are built from source.
    pub(crate) build: Vec<&'static str>,
    /// Their size.
    pub(crate) build_megabytes: u64,
    /// How many minutes building them takes on this machine.
    pub(crate) minutes: u64,
}

impl Programs {
    fn is_empty(&self) -> bool {
        self.fetch.is_empty() && self.build.is_empty()
    }
}

/// The state of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Facts {
    /// Fake nodes were asked for.
    pub(crate) fake: bool,
    /// The system is Linux.
    pub(crate) linux: bool,
    /// How this user becomes root.
    pub(crate) root: Root,
    /// Why even root may not create namespaces and mounts here, for example in a container.
    pub(crate) confined: Option<String>,
    /// Why a node can't have cgroups here.
    pub(crate) no_cgroups: Option<String>,
    /// Debian packages that a real node needs and that are not installed.
    pub(crate) packages: Vec<&'static str>,
    /// Whether `apt-get` exists to install them.
    pub(crate) apt: bool,
    /// Other downloads for a real node, with their sources.
    pub(crate) downloads: Vec<&'static str>,
    /// Programs for a cluster with a real node.
    pub(crate) real: Programs,
    /// Programs for one with fake nodes.
    pub(crate) fakes: Programs,
    /// Missing tools for builds.
    pub(crate) tools: Vec<&'static str>,
    /// Free bytes in the folder of the programs.
    pub(crate) disk: u64,
    /// Available bytes of memory.
    pub(crate) memory: u64,
    /// Ports of 127.0.0.1 that the cluster needs and other programs use, with their purpose.
    pub(crate) busy: Vec<(u16, &'static str)>,
    /// The state folder of a running cluster with fake nodes, whose ports are fixed.
    pub(crate) other_fake: Option<String>,
    /// Another kubelet runs on this machine.
    pub(crate) kubelet: bool,
    /// The folder of the programs.
    pub(crate) cache: String,
}

/// The plan of `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Why the nodes are fake; `None` for a real one.
    pub(crate) fake: Option<String>,
    /// Its description for the user.
    pub(crate) lines: Vec<String>,
    /// Whether something is installed, built or done as root: the user is asked first.
    pub(crate) ask: bool,
}

impl Facts {
    /// Decides on the kind of nodes, and what they need.
    ///
    /// # Errors
    /// With the missing requirements, if neither kind of nodes is possible.
    pub(crate) fn plan(&self) -> Result<Plan, String> {
        let fake = self.why_fake();
        let programs = if fake.is_some() { &self.fakes } else { &self.real };
        self.check(fake.is_some(), programs)?;
        let real = fake.is_none();
        let sudo = real && self.root == Root::Sudo;
        let install = real && !self.packages.is_empty();
        let mut lines = vec![match &fake {
            Some(reason) => {
                format!("nodes    fake: pods only report that they run, and no page answers\n         ({reason})")
            }
            None => "nodes    a real one, in namespaces of its own".to_owned(),
        }];
        if install {
            lines.push(format!(
                "install  Debian packages, with apt-get: {}",
                self.packages.join(" ")
            ));
        }
        let download = real && !self.downloads.is_empty();
        if download {
            lines.push(format!("fetch    {}", self.downloads.join("\n         ")));
        }
        lines.extend(self.program_lines(programs));
        if sudo {
            lines.push("root     sudo may ask for your password; builds run as you".to_owned());
        }
        lines.push(format!(
            "free     {} GB of disk, {} GB of memory",
            self.disk / GB,
            self.memory / GB
        ));
        for (port, used_for) in self.busy.iter().filter(|_| real) {
            lines.push(format!("port     {port} is in use: {used_for} gets another one"));
        }
        if real && self.kubelet {
            lines.push("also     another kubelet runs here; the two do not affect each other".to_owned());
        }
        Ok(Plan {
            fake,
            lines,
            ask: install || download || !programs.is_empty() || sudo,
        })
    }

    /// Returns why a real node is not possible, if it is not.
    fn why_fake(&self) -> Option<String> {
        if self.fake {
            return Some("asked for with --fake".into());
        }
        if !self.linux {
            return Some("a real node needs Linux".into());
        }
        if let Some(reason) = &self.confined {
            return Some(reason.clone());
        }
        if self.root == Root::No {
            return Some("a real node needs root, or sudo and a terminal".into());
        }
        if let Some(reason) = &self.no_cgroups {
            return Some(format!("a real node needs cgroups: {reason}"));
        }
        if !self.packages.is_empty() && !self.apt {
            return Some(format!(
                "not a Debian or Ubuntu, where a real node's packages could be installed: {}",
                self.packages.join(" ")
            ));
        }
        None
    }

    /// Checks the requirements of both kinds of nodes.
    fn check(&self, fake: bool, programs: &Programs) -> Result<(), String> {
        if !programs.build.is_empty() && !self.tools.is_empty() {
            return Err(format!(
                "programs must be built, and {} is missing: install Go 1.26 or newer (https://go.dev/doc/install)",
                self.tools.join(", ")
            ));
        }
        let room = |each: u64| DISK + ((programs.fetch_megabytes + programs.build_megabytes * each) << 20);
        let (disk, least) = (room(ROOM_TO_BUILD), room(LEAST_ROOM_TO_BUILD));
        let memory = match (programs.build.is_empty(), fake) {
            (false, _) => MEMORY_TO_BUILD,
            (true, false) => MEMORY,
            (true, true) => 0,
        };
        if self.disk < least {
            return Err(format!(
                "too little disk: {} has {} GB free, about {} GB are needed; `make clean-cache` and `go clean -cache` \
                 make room, APPDEPLOY_CACHE and GOCACHE name other folders",
                self.cache,
                self.disk / GB,
                disk.div_ceil(GB)
            ));
        }
        if self.memory < memory {
            return Err(format!(
                "too little memory: {} MB are available, {} MB are needed",
                self.memory >> 20,
                memory >> 20
            ));
        }
        if fake && let Some(other) = &self.other_fake {
            return Err(format!(
                "a cluster with fake nodes runs already, from {other}: end that one first (`make cluster-down` there)"
            ));
        }
        if fake && let Some((port, used_for)) = self.busy.first() {
            return Err(format!(
                "port {port} of 127.0.0.1, for {used_for}, is in use by another program"
            ));
        }
        Ok(())
    }

    fn program_lines(&self, programs: &Programs) -> Vec<String> {
        let mut lines = Vec::new();
        if !programs.fetch.is_empty() {
            lines.push(format!(
                "fetch    {}\n         from {}, about {} MB",
                wrap(&programs.fetch),
                programs.server,
                programs.fetch_megabytes
            ));
        }
        if !programs.build.is_empty() {
            lines.push(format!(
                "build    {}\n         from source, about {} min, and up to {} GB in Go's own caches",
                wrap(&programs.build),
                programs.minutes,
                (programs.build_megabytes * ROOM_TO_BUILD).div_ceil(1 << 10)
            ));
        }
        if let Some(server) = &programs.silent {
            lines.push(format!("         ({server}, which has some of them, does not answer)"));
        }
        if !lines.is_empty() {
            lines.push(format!(
                "keep     {} MB in {}",
                programs.fetch_megabytes + programs.build_megabytes,
                self.cache
            ));
        }
        lines
    }
}

/// Joins names in lines of less than 80 columns.
fn wrap(names: &[&str]) -> String {
    let mut text = String::new();
    let mut width = 9;
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 == names.len() { "" } else { "," };
        if index > 0 && width + 1 + name.len() + comma.len() > 78 {
            text.push_str("\n         ");
            width = 9;
        } else if index > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(name);
        text.push_str(comma);
        width += name.len() + comma.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root on Debian with all requirements.
    fn ready() -> Facts {
        Facts {
            fake: false,
            linux: true,
            root: Root::Is,
            confined: None,
            no_cgroups: None,
            packages: Vec::new(),
            apt: true,
            downloads: Vec::new(),
            real: Programs::default(),
            fakes: Programs::default(),
            tools: Vec::new(),
            disk: 40 * GB,
            memory: 8 * GB,
            busy: Vec::new(),
            other_fake: None,
            kubelet: false,
            cache: "/home/jane/.cache/appdeploy".into(),
        }
    }

    const KUBERNETES: [&str; 6] = [
        "kube-apiserver",
        "kubectl",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
    ];

    fn builds() -> Programs {
        Programs {
            build: KUBERNETES.to_vec(),
            build_megabytes: 350,
            minutes: 7,
            ..Programs::default()
        }
    }

    fn fetches() -> Programs {
        Programs {
            fetch: KUBERNETES.to_vec(),
            fetch_megabytes: 400,
            server: "https://dl.k8s.io/release".into(),
            ..Programs::default()
        }
    }

    #[test]
    fn no_confirmation_without_installation_or_build() {
        let plan = ready().plan().unwrap();
        assert_eq!((plan.fake, plan.ask), (None, false));
    }

    #[test]
    fn installation_and_build_are_listed_and_confirmed() {
        let facts = Facts {
            root: Root::Sudo,
            packages: vec!["runc", "nftables"],
            downloads: vec!["Traefik, with pip; 185 MB"],
            real: Programs {
                silent: Some("https://dl.k8s.io/release".into()),
                ..builds()
            },
            busy: vec![(8080, "the ingress controller")],
            ..ready()
        };
        let plan = facts.plan().unwrap();
        assert!(plan.ask);
        let text = plan.lines.join("\n");
        for words in [
            "dl.k8s.io/release, which has some of them, does not answer",
            "runc nftables",
            "Traefik, with pip",
            "about 7 min",
            "350 MB",
            "kubelet",
            "sudo",
            "8080",
        ] {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
        assert!(
            text.lines().all(|line| line.len() <= 78 && line == line.trim_end()),
            "wider than 80 columns, or with spaces at the end:\n{text}"
        );
    }

    #[test]
    fn downloads_are_listed_with_their_server_and_need_no_go() {
        let facts = Facts {
            real: fetches(),
            tools: vec!["go"],
            disk: 2 * GB,
            ..ready()
        };
        let plan = facts.plan().unwrap();
        assert!(plan.ask);
        let text = plan.lines.join("\n");
        for words in [
            "fetch    kube-apiserver",
            "from https://dl.k8s.io/release, about 400 MB",
        ] {
            assert!(text.contains(words), "{words:?} is not in:\n{text}");
        }
        assert!(!text.contains("from source"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 78), "{text}");
    }

    #[test]
    fn fake_nodes_are_used_where_a_real_one_is_not_possible() {
        let cases: [(Facts, &str); 6] = [
            (
                Facts {
                    linux: false,
                    ..ready()
                },
                "needs Linux",
            ),
            (
                Facts {
                    root: Root::No,
                    ..ready()
                },
                "needs root",
            ),
            (
                Facts {
                    confined: Some("a container".into()),
                    ..ready()
                },
                "a container",
            ),
            (
                Facts {
                    no_cgroups: Some("no memory".into()),
                    ..ready()
                },
                "needs cgroups",
            ),
            (
                Facts {
                    apt: false,
                    packages: vec!["runc"],
                    ..ready()
                },
                "not a Debian",
            ),
            (Facts { fake: true, ..ready() }, "--fake"),
        ];
        for (facts, reason) in cases {
            let plan = facts.plan().unwrap();
            assert!(plan.fake.as_ref().is_some_and(|fake| fake.contains(reason)), "{plan:?}");
            assert!(plan.lines[0].contains("no page answers"), "{plan:?}");
            assert!(!plan.ask, "{plan:?}");
        }
        // A machine without apt-get on which everything is installed has a real node.
        assert_eq!(Facts { apt: false, ..ready() }.plan().unwrap().fake, None);
    }

    #[test]
    fn missing_requirements_are_reported_before_a_build() {
        let cases: [(Facts, &str); 5] = [
            (
                Facts {
                    disk: GB / 2,
                    ..ready()
                },
                "too little disk",
            ),
            (
                Facts {
                    disk: 2 * GB,
                    real: builds(),
                    ..ready()
                },
                "about 5 GB",
            ),
            (Facts { memory: GB, ..ready() }, "too little memory"),
            (
                Facts {
                    tools: vec!["go"],
                    real: builds(),
                    ..ready()
                },
                "go is missing",
            ),
            (
                Facts {
                    fake: true,
                    other_fake: Some("/home/jane/other/target/cluster".into()),
                    ..ready()
                },
                "from /home/jane/other",
            ),
        ];
        for (facts, reason) in cases {
            let error = facts.plan().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        // Nothing is built: no Go is needed.
        assert!(
            Facts {
                tools: vec!["go"],
                ..ready()
            }
            .plan()
            .is_ok()
        );
        // The ports of fake nodes are fixed, and those of a real one are not.
        let busy = vec![(17443, "the API server")];
        assert!(
            Facts {
                fake: true,
                busy: busy.clone(),
                ..ready()
            }
            .plan()
            .is_err()
        );
        assert!(Facts { busy, ..ready() }.plan().is_ok());
    }
}
