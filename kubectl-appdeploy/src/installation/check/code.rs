//! The checks by their codes, which are part of the plugin's interface: scripts suppress by them, and pages link to them.
//! A code is never given to another check.

use std::fmt;

/// The group of a check; its heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The cluster, whatever is installed in it.
    Cluster,
    /// What has to be true before an installation.
    Installation,
    /// The definitions of the kinds.
    Api,
    /// What runs.
    Operator,
    /// The webhooks.
    Webhooks,
    /// The objects of users.
    Apps,
}

impl Group {
    /// Returns the heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Installation => "Before the installation",
            Self::Api => "API",
            Self::Operator => "Operator",
            Self::Webhooks => "Webhooks",
            Self::Apps => "Apps, pod sets and queues",
        }
    }
}

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The API server answers.
    Reachable,
    /// Kubernetes is new enough.
    Version,
    /// There is a node that takes pods.
    Nodes,
    /// An Ingress finds a controller.
    IngressClass,
    /// The user may write the objects of an installation.
    MayInstall,
    /// The user may grant the operator its rights.
    MayGrant,
    /// The names are free.
    Free,
    /// The API server takes what would be written.
    Accepted,
    /// The kinds are defined and served.
    Defined,
    /// Their schema is this plugin's.
    Schema,
    /// Nothing is stored in a version that is not served.
    Stored,
    /// The operator runs.
    Running,
    /// One operator leads.
    Leader,
    /// The operator is of this plugin's version.
    Release,
    /// The operator has its rights.
    Rights,
    /// All other objects of an installation exist.
    Complete,
    /// Webhook configurations have an endpoint and a CA bundle.
    Configured,
    /// The certificates that are trusted last.
    Certificates,
    /// The operator answers API servers.
    Answers,
    /// All apps, pod sets and queues are managed.
    Watched,
    /// No app, pod set or queue is stalled.
    Stalled,
}

impl Code {
    /// All of them, in their order on the page.
    pub const ALL: [Self; 21] = [
        Self::Reachable,
        Self::Version,
        Self::Nodes,
        Self::IngressClass,
        Self::MayInstall,
        Self::MayGrant,
        Self::Free,
        Self::Accepted,
        Self::Defined,
        Self::Schema,
        Self::Stored,
        Self::Running,
        Self::Leader,
        Self::Release,
        Self::Rights,
        Self::Complete,
        Self::Configured,
        Self::Certificates,
        Self::Answers,
        Self::Watched,
        Self::Stalled,
    ];

    /// The codes of all of them.
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut place = 0;
        while place < names.len() {
            names[place] = Self::ALL[place].as_str();
            place += 1;
        }
        names
    };

    /// Returns the code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reachable => "AD0101",
            Self::Version => "AD0102",
            Self::Nodes => "AD0103",
            Self::IngressClass => "AD0104",
            Self::MayInstall => "AD0201",
            Self::MayGrant => "AD0202",
            Self::Free => "AD0203",
            Self::Accepted => "AD0204",
            Self::Defined => "AD0301",
            Self::Schema => "AD0302",
            Self::Stored => "AD0303",
            Self::Running => "AD0401",
            Self::Leader => "AD0402",
            Self::Release => "AD0403",
            Self::Rights => "AD0404",
            Self::Complete => "AD0405",
            Self::Configured => "AD0501",
            Self::Certificates => "AD0502",
            Self::Answers => "AD0503",
            Self::Watched => "AD0601",
            Self::Stalled => "AD0602",
        }
    }

    /// Returns its group.
    pub const fn group(self) -> Group {
        match self {
            Self::Reachable | Self::Version | Self::Nodes | Self::IngressClass => Group::Cluster,
            Self::MayInstall | Self::MayGrant | Self::Free | Self::Accepted => Group::Installation,
            Self::Defined | Self::Schema | Self::Stored => Group::Api,
            Self::Running | Self::Leader | Self::Release | Self::Rights | Self::Complete => Group::Operator,
            Self::Configured | Self::Certificates | Self::Answers => Group::Webhooks,
            Self::Watched | Self::Stalled => Group::Apps,
        }
    }

    /// Returns where the check is explained.
    pub fn page(self) -> String {
        format!(
            "{}/blob/main/docs/checks.md#{}",
            env!("CARGO_PKG_REPOSITORY"),
            self.as_str().to_lowercase()
        )
    }

    /// Parses a code in any case.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = text.trim().to_uppercase();
        Self::ALL
            .into_iter()
            .find(|code| code.as_str() == wanted)
            .ok_or_else(|| "unknown check; docs/checks.md lists all checks, from AD0101".to_owned())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_and_have_the_number_of_their_group() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].as_str() < pair[1].as_str(), "{pair:?}");
            let is_same = pair[0].as_str()[..4] == pair[1].as_str()[..4];
            assert_eq!(is_same, pair[0].group() == pair[1].group(), "{pair:?}");
        }
        assert_eq!(Code::parse(" ad0401 "), Ok(Code::Running));
        assert!(Code::parse("AD9999").is_err());
    }

    /// The other way round, too: a heading without a check would explain nothing.
    #[test]
    fn each_check_has_a_heading_in_the_documentation() {
        let page = include_str!("../../../../docs/checks.md");
        let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        assert_eq!(headings, Code::ALL.map(Code::as_str));
        let groups: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        for code in Code::ALL {
            assert!(groups.contains(&code.group().title()), "{code}");
        }
    }
}
