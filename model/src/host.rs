//! Whose a host is. Two Ingresses with one host would take each other's visitors, and whoever may create an
//! AppDeploy could take those of another namespace.

use crate::{Failure, Valid};

/// What an application says that it answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity, which decides between two of the same age.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// The host.
    pub host: String,
    /// The path below which it answers.
    pub path: String,
}

impl Claim {
    /// Returns what an application claims, if it is to have an Ingress.
    #[must_use]
    pub fn of(app: &Valid<'_>, created: i64) -> Option<Self> {
        let ingress = app.route.as_ref()?.ingress.as_ref()?;
        Some(Self {
            namespace: app.namespace.clone(),
            name: app.name.clone(),
            uid: app.uid.clone(),
            created,
            host: ingress.host.clone(),
            path: match ingress.path.trim_end_matches('/') {
                "" => "/".to_owned(),
                // To an Ingress the path with a slash behind it is the same.
                path => path.to_owned(),
            },
        })
    }

    /// Who comes first. The default host is nobody else's: who has no choice shall not lose it to who has.
    fn age(&self) -> (bool, i64, &str) {
        let is_default = self.host == format!("{}.{}", self.name, self.namespace);
        (!is_default, self.created, &self.uid)
    }

    fn is(&self, other: &Self) -> bool {
        (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }
}

/// Returns the application that has what this one claims; `None` if it is this one.
///
/// A host belongs to the namespace of the oldest application that claims it; a default host to the application that is named
/// like it. Within the namespace, applications share
/// it by path, and a path belongs to the oldest, too. `others` are the claims of the same host.
#[must_use]
pub fn rival<'a>(claim: &Claim, others: impl Iterator<Item = &'a Claim> + Clone) -> Option<&'a Claim> {
    let older = others.filter(|other| other.host == claim.host && !other.is(claim) && other.age() < claim.age());
    let of_the_host = older.clone().min_by_key(|other| other.age())?;
    if of_the_host.namespace != claim.namespace {
        return Some(of_the_host);
    }
    older
        .filter(|other| other.namespace == claim.namespace && other.path == claim.path)
        .min_by_key(|other| other.age())
}

/// Says that an application can't have what it claims.
#[must_use]
pub fn conflict(claim: &Claim, rival: &Claim) -> Failure {
    let what = if rival.namespace == claim.namespace {
        format!("{}{}", claim.host, claim.path)
    } else {
        claim.host.clone()
    };
    let owner = if rival.namespace == claim.namespace {
        format!("AppDeploy {}", rival.name)
    } else {
        // Who it is is nobody's business in another namespace; that there is one shows anyway.
        "an AppDeploy of another namespace".to_owned()
    };
    Failure::HostConflict { what, owner }
}

/// Checks the host against the suffixes that an administrator allows. The default host is always allowed: no two
/// applications share it.
///
/// # Errors
/// Says which hosts are allowed.
pub fn allowed(app: &Valid<'_>, suffixes: &[String]) -> Result<(), String> {
    let Some(ingress) = app.route.as_ref().and_then(|route| route.ingress.as_ref()) else {
        return Ok(());
    };
    let host = &ingress.host;
    let fits = |suffix: &String| {
        let suffix = suffix.trim_start_matches('.');
        host.strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if suffixes.is_empty() || *host == format!("{}.{}", app.name, app.namespace) || suffixes.iter().any(fits) {
        return Ok(());
    }
    Err(format!(
        "spec.host: {host} is not allowed in this cluster; use a host that ends with {}",
        suffixes.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
        Claim {
            namespace: namespace.into(),
            name: name.into(),
            uid: format!("{namespace}/{name}"),
            created,
            host: "shop.example.com".into(),
            path: path.into(),
        }
    }

    fn winner(claims: &[Claim], of: usize) -> Option<&str> {
        rival(&claims[of], claims.iter()).map(|rival| rival.name.as_str())
    }

    #[test]
    fn a_host_belongs_to_the_namespace_of_the_oldest() {
        let claims = [
            claim("b", "young", 2, "/"),
            claim("a", "old", 1, "/"),
            claim("a", "sister", 3, "/api"),
        ];
        assert_eq!(winner(&claims, 0), Some("old"));
        assert_eq!(winner(&claims, 1), None);
        assert_eq!(winner(&claims, 2), None, "it shares the host by path");
    }

    #[test]
    fn a_path_belongs_to_the_oldest_of_the_namespace() {
        let claims = [claim("a", "old", 1, "/"), claim("a", "young", 2, "/")];
        assert_eq!((winner(&claims, 0), winner(&claims, 1)), (None, Some("old")));
    }

    #[test]
    fn of_the_same_second_the_smaller_uid_wins_wherever_it_is_asked() {
        let claims = [claim("b", "b", 1, "/"), claim("a", "a", 1, "/")];
        assert_eq!((winner(&claims, 0), winner(&claims, 1)), (Some("a"), None));
    }

    #[test]
    fn a_default_host_can_not_be_taken() {
        let of = |namespace: &str, name: &str, created: i64| Claim {
            host: "shop.team-a".into(),
            ..claim(namespace, name, created, "/")
        };
        let claims = [
            of("team-b", "thief", 1),
            of("team-a", "shop", i64::MAX),
            of("team-a", "late", 2),
        ];
        assert_eq!(winner(&claims, 0), Some("shop"));
        assert_eq!(winner(&claims, 1), None);
        assert_eq!(winner(&claims, 2), Some("shop"));
    }

    /// The one between may not have the host itself, and takes it from nobody.
    #[test]
    fn a_loser_of_the_host_is_in_nobodys_way() {
        let claims = [
            claim("a", "first", 1, "/x"),
            claim("b", "second", 2, "/"),
            claim("a", "third", 3, "/"),
        ];
        assert_eq!(winner(&claims, 1), Some("first"));
        assert_eq!(winner(&claims, 2), None);
    }

    #[test]
    fn hosts_are_allowed_by_whole_labels() {
        let app = |host: &str| -> crd::AppDeploy {
            serde_json::from_value(serde_json::json!({"metadata": {"name": "shop", "namespace": "a"},
                "spec": {"image": "nginx", "port": 80, "host": host}}))
            .unwrap()
        };
        let allowed = |host: &str| allowed(&crate::validate(&app(host)).unwrap(), &["example.com".into()]).is_ok();
        assert!(allowed("example.com") && allowed("shop.example.com"));
        assert!(allowed("shop.a"), "the default host");
        assert!(!allowed("badexample.com") && !allowed("example.org"));
    }
}
