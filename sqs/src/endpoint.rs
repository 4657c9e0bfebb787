//! The address of a queue service.

use http::Uri;
use http::uri::{Authority, Scheme};

/// The URL and the region of a queue service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    https: bool,
    authority: Authority,
    region: String,
}

/// An endpoint that is not a URL of a queue service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid endpoint {url:?}: {why}")]
pub struct InvalidEndpoint {
    url: String,
    why: &'static str,
}

impl Endpoint {
    /// Returns the endpoint of a region of AWS.
    ///
    /// # Errors
    /// When the region can't be part of a host name.
    pub fn aws(region: &str) -> Result<Self, InvalidEndpoint> {
        let valid = !region.is_empty()
            && region.len() <= 40
            && region
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !valid {
            return Err(InvalidEndpoint {
                url: region.to_owned(),
                why: "a region has lower-case letters, digits and '-' only",
            });
        }
        // https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html
        let domain = if region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else if region.starts_with("us-iso-") {
            "c2s.ic.gov"
        } else if region.starts_with("us-isob-") {
            "sc2s.sgov.gov"
        } else if region.starts_with("eusc-") {
            "amazonaws.eu"
        } else {
            "amazonaws.com"
        };
        Self::parse(&format!("https://sqs.{region}.{domain}"), region)
    }

    /// Returns the endpoint with the URL `url`: `http` or `https`, a host, and a port if it is not the usual one. The region
    /// is part of the signature.
    ///
    /// # Errors
    /// When the URL is invalid or has another part.
    pub fn parse(url: &str, region: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |why| InvalidEndpoint {
            url: without_user(url),
            why,
        };
        let parts = url.parse::<Uri>().map_err(|_| invalid("must be a URL"))?.into_parts();
        let https = match parts.scheme {
            Some(scheme) if scheme == Scheme::HTTPS => true,
            Some(scheme) if scheme == Scheme::HTTP => false,
            _ => return Err(invalid("must begin with https:// or http://")),
        };
        let authority = parts.authority.ok_or_else(|| invalid("host missing"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("must not have a user; credentials are in a Secret"));
        }
        if authority.host().is_empty() {
            return Err(invalid("host missing"));
        }
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if !port.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(invalid("the port must be a number from 1 to 65535"));
        }
        // The crate `http` drops a fragment.
        let rest = parts.path_and_query.as_ref().map_or("", |rest| rest.as_str());
        if !matches!(rest, "" | "/") || url.contains('#') {
            return Err(invalid("must not have a path or a query"));
        }
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') {
            return Err(invalid(
                "the region is empty or has other characters than letters, digits and '-'",
            ));
        }
        // Upper and lower case are the same host, and must share its limits.
        let authority = authority.as_str().to_ascii_lowercase();
        let authority = authority.parse().map_err(|_| invalid("must be a URL"))?;
        Ok(Self {
            https,
            authority,
            region: region.to_owned(),
        })
    }

    /// Returns the region.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the URL, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.https { "https" } else { "http" }, self.authority)
    }

    /// Returns whether connections use TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.https
    }

    /// Returns the `Host` header: without the port if it is the usual one, as servers reconstruct it to check signatures.
    pub(crate) fn host_header(&self) -> &str {
        match (self.https, self.authority.port_u16()) {
            (true, Some(443)) | (false, Some(80)) => self.authority.host(),
            _ => self.authority.as_str(),
        }
    }
}

/// Returns a URL without its user part, for messages.
fn without_user(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_aws_are_in_the_domain_of_their_partition() {
        for (region, url) in [
            ("us-east-1", "https://sqs.us-east-1.amazonaws.com"),
            ("us-gov-west-1", "https://sqs.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "https://sqs.cn-north-1.amazonaws.com.cn"),
            ("us-isob-east-1", "https://sqs.us-isob-east-1.sc2s.sgov.gov"),
        ] {
            let endpoint = Endpoint::aws(region).unwrap();
            assert_eq!(endpoint.url(), url);
            assert_eq!(endpoint.region(), region);
        }
        for region in ["", "evil.example/", "a.b", "EU"] {
            assert!(Endpoint::aws(region).is_err(), "{region}");
        }
    }

    #[test]
    fn usual_port_is_not_part_of_the_host_header() {
        for (url, header) in [
            ("https://sqs.example:443/", "sqs.example"),
            ("http://sqs.example:80", "sqs.example"),
            ("http://SQS.example:9324", "sqs.example:9324"),
            ("https://sqs.example:80", "sqs.example:80"),
            ("http://[::1]:9324", "[::1]:9324"),
        ] {
            assert_eq!(Endpoint::parse(url, "r").unwrap().host_header(), header);
        }
    }

    #[test]
    fn other_urls_are_invalid() {
        for (url, why) in [
            ("ftp://sqs.example", "must begin with https:// or http://"),
            ("sqs.example:9324", "must begin with https:// or http://"),
            ("http://", "must be a URL"),
            ("http://sqs.example/queue", "must not have a path or a query"),
            ("http://sqs.example?a=b", "must not have a path or a query"),
            ("http://sqs.example/#a", "must not have a path or a query"),
            ("http://sqs.example:99999", "the port must be a number from 1 to 65535"),
            ("http://sqs.example:", "the port must be a number from 1 to 65535"),
            ("http://sqs.example:0", "the port must be a number from 1 to 65535"),
        ] {
            let error = Endpoint::parse(url, "us-east-1")
                .map(|endpoint| endpoint.url())
                .unwrap_err();
            assert_eq!(error.why, why, "{url}");
        }
        assert!(Endpoint::parse("http://sqs.example", "").is_err());
        assert!(Endpoint::parse("http://sqs.example", "a/b").is_err());
    }

    #[test]
    fn password_in_an_url_is_not_in_the_message() {
        let error = Endpoint::parse("http://me:hush@sqs.example", "r")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "invalid endpoint \"http://sqs.example\": must not have a user; credentials are in a Secret"
        );
    }
}
