//! What the demo may create and remove in the user's own cluster.

/// The annotation on all objects that the demo creates there.
pub const ANNOTATION: &str = "appdeploy.dev/created-by";
/// Its value.
pub const DEMO: &str = "demo";

/// Whether an object exists, and whether the demo created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does not exist.
    Absent,
    /// The demo created it.
    Demo,
    /// It exists, without the demo's annotation.
    Other,
}

impl Presence {
    /// Parses `NAME ANNOTATION` of kubectl's output, empty for an object that does not exist.
    #[must_use]
    pub fn read(line: &str) -> Self {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (None, _) => Self::Absent,
            (Some(_), Some(DEMO)) => Self::Demo,
            (Some(_), _) => Self::Other,
        }
    }
}

/// The state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// The demo's app.
    pub app: Presence,
    /// The operator's Deployment.
    pub operator: Presence,
    /// The CRDs.
    pub definitions: Presence,
    /// Other AppDeploys and PodSets, in all namespaces.
    pub others: usize,
}

/// What the demo installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Install the operator, and annotate it.
    pub operator: bool,
    /// Annotate the CRDs, which the demo creates.
    pub definitions: bool,
}

impl Existing {
    /// Decides what the demo installs. An operator of another owner is used as it is.
    ///
    /// # Errors
    /// When an app of the demo's name is not the demo's.
    pub fn setup(self) -> Result<Setup, &'static str> {
        if self.app == Presence::Other {
            return Err("an app of that name exists, and the demo did not create it");
        }
        let operator = self.operator != Presence::Other;
        Ok(Setup {
            operator,
            definitions: operator && self.definitions != Presence::Other,
        })
    }

    /// Decides what is removed: only what the demo created, and nothing that other apps use now.
    #[must_use]
    pub fn removal(self) -> Removal {
        let mut kept = Vec::new();
        if self.app == Presence::Other {
            kept.push("the app: the demo did not create it".to_owned());
        }
        let operator = match self.operator {
            Presence::Absent => false,
            Presence::Other => {
                kept.push("the operator: the demo did not install it".to_owned());
                false
            }
            Presence::Demo if self.others > 0 || self.app == Presence::Other => {
                kept.push(
                    "the operator and the CRDs: other AppDeploys or PodSets use them; \
                     `kubectl appdeploy uninstall` removes the operator"
                        .to_owned(),
                );
                false
            }
            Presence::Demo => true,
        };
        let definitions = operator && self.definitions == Presence::Demo;
        if operator && self.definitions == Presence::Other {
            kept.push("the CRDs: the demo did not create them".to_owned());
        }
        Removal {
            app: self.app == Presence::Demo,
            operator,
            definitions,
            kept,
        }
    }
}

/// What `make demo-down` removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Delete the app.
    pub app: bool,
    /// Uninstall the operator.
    pub operator: bool,
    /// Delete the CRDs with it.
    pub definitions: bool,
    /// The objects that are kept, with the reason.
    pub kept: Vec<String>,
}

impl Removal {
    /// Returns whether there is nothing to remove.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.app && !self.operator
    }
}

#[cfg(test)]
mod tests {
    use super::Presence::{Absent, Demo, Other};
    use super::*;

    const fn existing(app: Presence, operator: Presence, definitions: Presence, others: usize) -> Existing {
        Existing {
            app,
            operator,
            definitions,
            others,
        }
    }

    #[test]
    fn only_objects_of_the_demo_are_removed() {
        let removal = existing(Demo, Demo, Demo, 0).removal();
        assert!(removal.app && removal.operator && removal.definitions && removal.kept.is_empty());
    }

    #[test]
    fn third_party_objects_are_never_removed() {
        let presences = [Absent, Demo, Other];
        for app in presences {
            for operator in presences {
                for definitions in presences {
                    for others in [0, 1] {
                        let removal = existing(app, operator, definitions, others).removal();
                        assert!(!removal.app || app == Demo);
                        assert!(!removal.operator || operator == Demo);
                        // Deleting the CRDs deletes all AppDeploys and PodSets.
                        let nothing_else = others == 0 && app != Other;
                        assert!(!removal.definitions || (definitions == Demo && nothing_else));
                    }
                }
            }
        }
    }

    #[test]
    fn installed_operator_is_used_unchanged() {
        let setup = existing(Absent, Other, Other, 3).setup();
        assert_eq!(
            setup,
            Ok(Setup {
                operator: false,
                definitions: false
            })
        );
        let setup = existing(Absent, Absent, Absent, 0).setup();
        assert_eq!(
            setup,
            Ok(Setup {
                operator: true,
                definitions: true
            })
        );
        assert!(existing(Other, Absent, Other, 0).setup().is_err());
    }

    #[test]
    fn presence_is_read_from_name_and_annotation() {
        assert_eq!(Presence::read(""), Absent);
        assert_eq!(Presence::read("nginx demo\n"), Demo);
        assert_eq!(Presence::read("nginx \n"), Other);
        assert_eq!(Presence::read("nginx someone"), Other);
    }
}
