//! Which image a container was started for, and when a change of the image in place has arrived.
//!
//! A kubelet restarts a container if the image *string* of the spec differs from the one that the container was started
//! for, whatever the images contain. It does not report that string: a runtime reports an image by any of its names. So
//! a change records what ran before, and what is reported only decides where the record leaves a doubt.

use k8s_openapi::api::core::v1::ContainerStatus;

use super::SetPod;
use crate::defaults::GRACE;

/// How long a kubelet may take to act on a changed image, in seconds: until the container of before has ended, and some
/// more to receive the change. Only waited for where nothing shows which image the container was started for.
const SETTLES_IN: i64 = GRACE + 5;

/// Earlier than any time that is compared with it.
const LONG_AGO: i64 = i64::MIN;

/// A change of a pod's image in place, as its annotations record it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageChange {
    /// The container that ran; empty if none was known to run, or if it was unclear which image it was started for.
    pub container: String,
    /// The image of the spec that this container was started for. If no container is named, a node may have begun to pull
    /// it; where the pod had no node yet, it is the new image.
    pub image: String,
    /// When the image was changed, in seconds since 1970.
    pub at: i64,
}

/// Which image a runtime reports, of the one before the last change and the one of the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reported {
    /// Neither, or both.
    #[default]
    Unclear,
    /// The one before the change.
    Old,
    /// The one of the spec.
    New,
}

impl Reported {
    /// Reads what is reported of a container.
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
    /// Returns from when on its container counts as one that was started for the image of the spec, in seconds since 1970;
    /// `None` if no time alone makes it one.
    pub(super) fn arrived_at(&self) -> Option<i64> {
        let Some(change) = &self.change else {
            return Some(LONG_AGO);
        };
        let is_reverted = self.image.as_ref() == Some(&change.image);
        let is_known = !change.container.is_empty();
        // No node had received the image before; or it is a virtual one, whose containers have no ids to tell them apart.
        if self.is_anonymous || (is_reverted && !is_known) {
            return Some(LONG_AGO);
        }
        let running = self.container.as_deref().filter(|container| !container.is_empty())?;
        if self.observed == Some(false) {
            return None;
        }
        let settled = change.at.saturating_add(SETTLES_IN);
        if running == change.container {
            // A kubelet that has reported a status for the current spec and still runs it does not restart it.
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

    /// Whether its image was changed and it does not run the new one yet, as far as can be told.
    #[must_use]
    pub fn is_updating(&self, now: i64) -> bool {
        self.arrived_at().is_none_or(|at| now < at)
    }

    /// Whether its container is certain to restart for a changed image, or none has been started.
    pub(super) fn must_restart(&self) -> bool {
        let Some(change) = &self.change else {
            return false;
        };
        let is_reverted = self.image.as_ref() == Some(&change.image);
        let running = self.container.as_deref().filter(|container| !container.is_empty());
        running.is_none_or(|running| running == change.container && !is_reverted)
    }

    /// Returns what to record on it when its image is changed to another one.
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

/// Whether a runtime reports an image by a name. It may report another name of the same image; so a "no" may be wrong.
fn is_run_by(wanted: &str, running: &ContainerStatus) -> bool {
    match wanted.split_once('@') {
        Some((_, digest)) => running.image_id.split_once('@').is_some_and(|(_, id)| id == digest),
        None => spelled_out(wanted) == spelled_out(&running.image),
    }
}

/// Spells out what the name of an image leaves to defaults: `nginx` is `docker.io/library/nginx:latest`.
fn spelled_out(image: &str) -> String {
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
