//! Which image a container was started with, and when a change of the image in place is complete.
//!
//! A kubelet restarts a container if the image *string* of the spec differs from the one with which the container was
//! started. It does not report that string, and a runtime reports any of the names of an image. So a change records the
//! previous container, and the reported image only decides where the record is not enough.

use k8s_openapi::api::core::v1::ContainerStatus;

use super::SetPod;
use crate::defaults::GRACE;

/// How long a kubelet may take to act on a changed image, in seconds: the default grace period of the previous container,
/// and some time to receive the change. It only matters if nothing shows with which image the container was started.
const SETTLES_IN: i64 = GRACE + 5;

/// A time before all other times.
const LONG_AGO: i64 = i64::MIN;

/// The record of a change of the image of a pod in place, from its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageChange {
    /// The id of the previous container. Empty if none was running, or if it was not known with which image it was started.
    pub container: String,
    /// The image in the spec with which that container was started. Without a container, it is an image that a node may
    /// have begun to pull; if the pod had no node yet, it is the new image.
    pub image: String,
    /// When the image was changed, in seconds since 1970.
    pub at: i64,
}

/// Which image a runtime reports: the one before the last change, or the one in the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reported {
    /// Neither, or both.
    #[default]
    Unclear,
    /// The image before the change.
    Old,
    /// The image in the spec.
    New,
}

impl Reported {
    /// Reads the status of a container.
    #[must_use]
    pub fn read(old: &str, new: &str, running: &ContainerStatus) -> Self {
        match (is_run_by(old, running), is_run_by(new, running)) {
            (true, false) => Self::Old,
            (false, true) => Self::New,
            _ => Self::Unclear,
        }
    }
}

impl SetPod {
    /// Returns when its container counts as started with the image in the spec, in seconds since 1970. `None` if that needs
    /// a change of the pod.
    pub(super) fn arrived_at(&self) -> Option<i64> {
        let Some(change) = &self.change else {
            return Some(LONG_AGO);
        };
        let is_reverted = self.image.as_ref() == Some(&change.image);
        let is_known = !change.container.is_empty();
        // No node has received the previous image, or it is a virtual node, whose containers have no ids.
        if self.is_anonymous || (is_reverted && !is_known) {
            return Some(LONG_AGO);
        }
        let running = self.container.as_deref().filter(|container| !container.is_empty())?;
        if self.observed == Some(false) {
            return None;
        }
        let settled = change.at.saturating_add(SETTLES_IN).saturating_add(self.longer_grace);
        if running == change.container {
            // A kubelet that has reported a status for the current spec does not restart the container any more.
            return is_reverted.then_some(if self.observed.is_some() { LONG_AGO } else { settled });
        }
        let is_younger = self.started.is_none_or(|started| started >= change.at);
        let is_certain = match self.reported {
            Reported::New => is_known || self.observed.is_some(),
            Reported::Unclear => is_known && is_younger,
            Reported::Old => false,
        };
        Some(if is_certain { LONG_AGO } else { settled })
    }

    /// Whether its image was changed, and its container is not known to run the new one yet.
    #[must_use]
    pub fn is_updating(&self, now: i64) -> bool {
        self.arrived_at().is_none_or(|at| now < at)
    }

    /// Whether its container will certainly restart for a changed image, or was not started yet.
    pub(super) fn must_restart(&self) -> bool {
        let Some(change) = &self.change else {
            return false;
        };
        let is_reverted = self.image.as_ref() == Some(&change.image);
        let running = self.container.as_deref().filter(|container| !container.is_empty());
        running.is_none_or(|running| running == change.container && !is_reverted)
    }

    /// Returns the record of a change of its image.
    pub(super) fn change_to(&self, image: &str, now: i64) -> ImageChange {
        let running = self.container.as_ref().filter(|_| self.is_running).cloned();
        let current = self.image.clone().unwrap_or_default();
        let (container, image) = match &self.change {
            _ if self.node.is_none() && self.container.as_deref().is_none_or(str::is_empty) => {
                (String::new(), image.to_owned())
            }
            Some(change) if self.is_updating(now) => {
                let is_same = running.as_ref() == Some(&change.container) && change.image != image;
                if is_same {
                    (change.container.clone(), change.image.clone())
                } else {
                    (String::new(), current)
                }
            }
            _ => (running.unwrap_or_default(), current),
        };
        ImageChange {
            container,
            image,
            at: now,
        }
    }
}

/// Whether a runtime reports an image by this name. If not, it may still be the same image with another name.
fn is_run_by(wanted: &str, running: &ContainerStatus) -> bool {
    match wanted.split_once('@') {
        Some((_, digest)) => running.image_id.split_once('@').is_some_and(|(_, id)| id == digest),
        None => full_name(wanted) == full_name(&running.image),
    }
}

/// Returns the full name of an image: `nginx` is `docker.io/library/nginx:latest`.
fn full_name(image: &str) -> String {
    let has_registry = image
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let registry = match image {
        _ if has_registry => "",
        _ if image.contains('/') => "docker.io/",
        _ => "docker.io/library/",
    };
    let has_tag = image.rsplit('/').next().is_some_and(|last| last.contains(':'));
    format!("{registry}{image}{}", if has_tag { "" } else { ":latest" })
}

#[cfg(test)]
mod tests;
