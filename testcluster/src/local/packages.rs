//! What the node needs of the machine: Debian's packages, installed by the command itself where it can.

use anyhow::{Context, Result, bail};

use super::tool::{self, Tool};
use super::ui::Ui;

/// A file that shows that a package is there, looked for as a program, or as a path if it starts with `/`.
struct Needed {
    sign: &'static str,
    package: &'static str,
}

/// What the node itself needs.
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

/// What compiling a static program needs: the pause image, and the operator where no engine has a base image.
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

/// Installs what the node needs and is not there.
pub(crate) fn ensure_node(ui: &Ui) -> Result<()> {
    ensure(&NODE, ui)
}

/// Installs what compiling a static program needs and is not there.
pub(crate) fn ensure_compiler(ui: &Ui) -> Result<()> {
    ensure(&COMPILE, ui)
}

/// Installs buildah if it is not there.
pub(crate) fn ensure_buildah(ui: &Ui) -> Result<()> {
    ensure(
        &[Needed {
            sign: "buildah",
            package: "buildah",
        }],
        ui,
    )
}

/// Says what is missing of the programs that are not Debian packages, before minutes of work depend on it.
pub(crate) fn check_python() -> Result<()> {
    if tool::find("python3").is_none() {
        bail!(
            "python3 is missing, with which Traefik is fetched: install it (on Debian: `apt-get install python3-pip`)"
        );
    }
    if !Tool::new("python3").args(["-m", "pip", "--version"]).succeeds() {
        bail!("pip is missing, with which Traefik is fetched: install it (on Debian: `apt-get install python3-pip`)");
    }
    Ok(())
}

fn ensure(needed: &[Needed], ui: &Ui) -> Result<()> {
    let missing: Vec<_> = needed
        .iter()
        .filter(|needed| !is_there(needed))
        .map(|needed| needed.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if tool::find("apt-get").is_none() {
        bail!(
            "{} missing, and this is no Debian where they could be installed: install what Debian calls {names}, \
             with CNI plugins in /usr/lib/cni",
            programs(needed)
        );
    }
    ui.step(&format!("installing Debian packages: {names}"), || {
        let apt = |args: &[&str]| {
            Tool::new("apt-get")
                .args(args)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .run()
        };
        let install: Vec<_> = ["install", "-y", "--no-install-recommends"]
            .into_iter()
            .chain(missing)
            .collect();
        // The lists of a fresh machine are empty, and of an old one name packages that are gone.
        apt(&install)
            .or_else(|_| apt(&["update"]).and_then(|_| apt(&install)))
            .with_context(|| format!("could not install {names}; `apt-get install {names}` shows why"))
            .map(drop)
    })
}

fn is_there(needed: &Needed) -> bool {
    if needed.sign.starts_with('/') {
        std::path::Path::new(needed.sign).exists()
    } else {
        tool::find(needed.sign).is_some()
    }
}

fn programs(needed: &[Needed]) -> String {
    let names: Vec<_> = needed
        .iter()
        .filter(|needed| !is_there(needed))
        .map(|needed| needed.sign)
        .collect();
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}
