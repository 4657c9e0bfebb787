//! The platforms of the plugin's releases.

use anyhow::{Context as _, Result};

/// A platform, with its names in Rust and in Kubernetes' tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Rust's name.
    pub target: &'static str,
    /// Go's name of the operating system, which Krew uses.
    pub os: &'static str,
    /// Go's name of the processor.
    pub arch: &'static str,
}

/// All contenders.
pub const PLATFORMS: [Platform; 5] = [
    Platform::new("x86_64-unknown-linux-musl", "linux", "amd64"),
    Platform::new("aarch64-unknown-linux-musl", "linux", "arm64"),
    Platform::new("x86_64-apple-darwin", "darwin", "amd64"),
    Platform::new("aarch64-apple-darwin", "darwin", "arm64"),
    Platform::new("x86_64-pc-windows-gnu", "windows", "amd64"),
];

impl Platform {
    const fn new(target: &'static str, os: &'static str, arch: &'static str) -> Self {
        Self { target, os, arch }
    }

    /// Finds a platform by Rust's name.
    ///
    /// # Errors
    /// When there are no releases for it.
    pub fn of(target: &str) -> Result<Self> {
        let found = PLATFORMS.into_iter().find(|platform| platform.target == target);
        found.with_context(|| {
            let known: Vec<_> = PLATFORMS.iter().map(|platform| platform.target).collect();
            format!("nothing is released for {target}; there are {}", known.join(", "))
        })
    }

    /// Returns whether it is Windows, where programs have an extension and archives another format.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        self.os == "windows"
    }

    /// Returns the file name of the plugin.
    #[must_use]
    pub fn program(&self) -> &'static str {
        if self.is_windows() {
            "kubectl-appdeploy.exe"
        } else {
            "kubectl-appdeploy"
        }
    }

    /// Returns the file name of the program that kubectl calls for completion of the plugin's command line.
    #[must_use]
    pub fn completer(&self) -> &'static str {
        if self.is_windows() {
            "kubectl_complete-appdeploy.cmd"
        } else {
            "kubectl_complete-appdeploy"
        }
    }

    /// Returns the file name of the plugin's archive.
    #[must_use]
    pub fn archive(&self) -> String {
        let end = if self.is_windows() { "zip" } else { "tar.gz" };
        format!("kubectl-appdeploy-v{}-{}-{}.{end}", crate::VERSION, self.os, self.arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_target_is_an_error_with_the_supported_ones() {
        let error = Platform::of("wasm32-wasip1").unwrap_err().to_string();
        assert!(error.starts_with("nothing is released for wasm32-wasip1; there are x86_64-unknown-linux-musl, "));
        assert_eq!(
            Platform::of("x86_64-pc-windows-gnu").unwrap().program(),
            "kubectl-appdeploy.exe"
        );
    }
}
