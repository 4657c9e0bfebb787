//! What a person wants, version by version.

use model::podset::Wanted;

use crate::pods::{SET, Template, image_name, set_uid};

/// One version of the set.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The number of the set's UID.
    pub set: u8,
    /// The set has been deleted, and is not there.
    pub gone: bool,
    /// What its pods are made from.
    pub template: Template,
    /// The slots whose pods a person wants replaced. Their UIDs are found when the person writes it.
    pub replace: Vec<u8>,
    /// What the decision takes, but for the UIDs of pods to replace.
    pub wanted: Wanted,
}

impl Wish {
    /// Returns the wish for some pods of the first template.
    pub fn for_pods(replicas: usize) -> Self {
        Self {
            set: 0,
            gone: false,
            template: Template { image: 0, shape: 0 },
            replace: Vec::new(),
            wanted: Wanted {
                name: SET.into(),
                replicas,
                max_unavailable: 1,
                ..Wanted::default()
            },
        }
        .spelled_out()
    }

    /// With another image.
    pub fn image(mut self, image: u8) -> Self {
        self.template.image = image;
        self.spelled_out()
    }

    /// With another template, which no pod can be brought to in place.
    pub fn shape(mut self, shape: u8) -> Self {
        self.template.shape = shape;
        self.spelled_out()
    }

    /// With pods to replace.
    pub fn replace(mut self, slots: &[u8]) -> Self {
        self.replace = slots.to_vec();
        self
    }

    /// The set is not there any more.
    pub fn gone(mut self) -> Self {
        self.gone = true;
        self
    }

    /// Another set of the same name.
    pub fn of_set(mut self, set: u8) -> Self {
        self.set = set;
        self.spelled_out()
    }

    /// Whether a set of this UID is there and wants its pods.
    pub fn is_there(&self) -> bool {
        !self.gone && !self.wanted.deleting
    }

    /// Returns how many pods there may be at a time.
    pub fn most(&self) -> usize {
        self.wanted.replicas + usize::from(!self.replace.is_empty())
    }

    /// Writes into what the decision takes what follows from the rest.
    pub fn spelled_out(mut self) -> Self {
        self.wanted.uid = set_uid(self.set);
        self.wanted.image = image_name(self.template.image);
        self.wanted.template = self.template.hash();
        self.wanted.shape = self.template.shape_hash();
        self
    }
}
