//! The Debian packages that a real node needs.

use std::ffi::OsStr;

use anyhow::{Context, Result, bail};

use super::layout::Layout;
use super::tool::{self, Tool};
use super::ui::Ui;

/// A file that shows that a package is installed, found as a program, or as a path if it starts with `/`.
struct Needed {
    sign: &'static str,
    package: &'static str,
}

/// Packages for the node itself.
const NODE: [Needed; 4] = [
    Needed {
        sign: "ip",
        package: "iproute2",
    },
    Needed {
        sign: "nft",
        package: "nftables",
    },
    Needed {
        sign: "runc",
        package: "runc",
    },
    Needed {
        sign: "/usr/lib/cni/ptp",
        package: "containernetworking-plugins",
    },
];

/// Packages to compile a static program: the pause image, and the operator if no engine has a base image.
const COMPILE: [Needed; 2] = [
    Needed {
        sign: "gcc",
        package: "gcc",
    },
    Needed {
        sign: "musl-gcc",
        package: "musl-tools",
    },
];

/// Packages to unpack Debian packages into images; they can't be installed on other systems.
const APT: [Needed; 2] = [
    Needed {
        sign: "apt-get",
        package: "apt",
    },
    Needed {
        sign: "dpkg-deb",
        package: "dpkg",
    },
];

/// Packages to download Traefik.
const PYTHON: [Needed; 1] = [Needed {
    sign: "pip3",
    package: "python3-pip",
}];

/// Returns the packages that a cluster with a real node needs and that are not installed.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is no real node"))]
pub(crate) fn missing(layout: &Layout) -> Vec<&'static str> {
    let mut needed: Vec<&Needed> = NODE.iter().collect();
    #[cfg(target_os = "linux")]
    {
        if super::images::missing(layout) {
            needed.extend(&COMPILE);
            needed.extend(&APT);
        }
        if !super::ingress::path(&layout.cache).exists() {
            needed.extend(&PYTHON);
        }
    }
    needed.retain(|needed| !is_there(needed));
    needed.iter().map(|needed| needed.package).collect()
}

/// Installs missing packages for a cluster with a real node.
pub(crate) fn ensure_node(layout: &Layout, ui: &Ui) -> Result<()> {
    install(&missing(layout), ui)
}

/// Installs missing packages to compile a static program.
pub(crate) fn ensure_compiler(ui: &Ui) -> Result<()> {
    ensure(&COMPILE, ui)
}

/// Installs buildah if it is missing.
pub(crate) fn ensure_buildah(ui: &Ui) -> Result<()> {
    ensure(
        &[Needed {
            sign: "buildah",
            package: "buildah",
        }],
        ui,
    )
}

fn ensure(needed: &[Needed], ui: &Ui) -> Result<()> {
    let missing: Vec<_> = needed
        .iter()
        .filter(|needed| !is_there(needed))
        .map(|needed| needed.package)
        .collect();
    install(&missing, ui)
}

fn install(missing: &[&str], ui: &Ui) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if tool::find("apt-get").is_none() {
        bail!("not installed, and there is no apt-get to install them: what Debian calls {names}");
    }
    ui.step(&format!("installing Debian packages: {names}"), || {
        let apt = |args: &[&str]| {
            as_root("env")
                .args(["DEBIAN_FRONTEND=noninteractive", "timeout", "900", "apt-get"])
                .args(["-o", "DPkg::Lock::Timeout=120"])
                .args(args)
                .run()
        };
        let install: Vec<_> = ["install", "--yes", "--no-install-recommends", "--no-remove"]
            .into_iter()
            .chain(missing.iter().copied())
            .collect();
        // The package lists of a fresh machine are empty, and those of an old one have packages that no longer exist.
        apt(&install)
            .or_else(|_| apt(&["update"]).and_then(|_| apt(&install)))
            .with_context(|| format!("could not install {names}; `apt-get install {names}` shows why"))
            .map(drop)
    })
}

/// Returns a call of a program as root: with sudo, if this user is not root.
pub(crate) fn as_root(program: impl AsRef<OsStr>) -> Tool {
    if nix::unistd::Uid::effective().is_root() {
        Tool::new(program)
    } else {
        Tool::new("sudo").arg("--").arg(program)
    }
}

fn is_there(needed: &Needed) -> bool {
    if needed.sign.starts_with('/') {
        std::path::Path::new(needed.sign).exists()
    } else {
        tool::find(needed.sign).is_some()
    }
}
