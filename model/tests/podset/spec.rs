//! The versions of the spec of the simulated set.

use model::podset::ValidPodSet;

use crate::pods::{SET, Template, image_name, set_uid};

/// One version of the spec.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The number of the set's UID.
    pub set: u8,
    /// Whether the set was deleted.
    pub deleted: bool,
    /// The template of the pods.
    pub template: Template,
    /// The slots of pods to replace. Their UIDs are determined when the spec is written.
    pub replace: Vec<u8>,
    /// The input of the decision, without the UIDs of pods to replace.
    pub valid: ValidPodSet,
}

impl Spec {
    /// Returns a spec with some replicas and the first template.
    pub fn for_pods(replicas: usize) -> Self {
        Self {
            set: 0,
            deleted: false,
            template: Template { image: 0, shape: 0 },
            replace: Vec::new(),
            valid: ValidPodSet {
                name: SET.into(),
                replicas,
                max_unavailable: 1,
                ..ValidPodSet::default()
            },
        }
        .completed()
    }

    /// Changes the image.
    pub fn image(mut self, image: u8) -> Self {
        self.template.image = image;
        self.completed()
    }

    /// Changes the part of the template that can't be changed in place.
    pub fn shape(mut self, shape: u8) -> Self {
        self.template.shape = shape;
        self.completed()
    }

    /// Replaces the pods in some slots.
    pub fn replace(mut self, slots: &[u8]) -> Self {
        self.replace = slots.to_vec();
        self
    }

    /// Deletes the set.
    pub fn deleted(mut self) -> Self {
        self.deleted = true;
        self
    }

    /// Changes the set to another one of the same name.
    pub fn of_set(mut self, set: u8) -> Self {
        self.set = set;
        self.completed()
    }

    /// Whether the set exists and is not being deleted.
    pub fn exists(&self) -> bool {
        !self.deleted && !self.valid.deleting
    }

    /// Returns the maximum number of pods.
    pub fn max_pods(&self) -> usize {
        self.valid.replicas + usize::from(!self.replace.is_empty())
    }

    /// Sets the fields of the input of the decision that follow from the others.
    pub fn completed(mut self) -> Self {
        self.valid.uid = set_uid(self.set);
        self.valid.image = image_name(self.template.image);
        self.valid.template = self.template.hash();
        self.valid.shape = self.template.shape_hash();
        self
    }
}
