//! The certificate in a TLS Secret: its hosts and its expiry. The key is not read.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

/// The key under which a TLS Secret has its certificate.
const CERTIFICATE: &str = "tls.crt";
/// The annotation in which cert-manager names its own object.
const ISSUED: &str = "cert-manager.io/certificate-name";

/// The content of a TLS Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// The Secret does not exist.
    Missing,
    /// It has no `tls.crt`.
    Empty,
    /// Its `tls.crt` is not a certificate.
    Unreadable,
    /// This is its certificate, the first of the chain.
    Certificate(Certificate),
    /// It may not be read; the reason.
    Unknown(String),
}

/// The content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its hosts; `*.` matches one label.
    pub hosts: Vec<String>,
    /// From when it counts.
    pub from: Timestamp,
    /// Until when it counts.
    pub until: Timestamp,
    /// The cert-manager object that renews the certificate, if there is one.
    pub issued_by: Option<String>,
}

impl Tls {
    /// Parses a Secret. `None` means that it does not exist.
    pub fn read(secret: Option<&Secret>) -> Self {
        let Some(secret) = secret else { return Self::Missing };
        let Some(pem) = secret.data.as_ref().and_then(|data| data.get(CERTIFICATE)) else {
            return Self::Empty;
        };
        if pem.0.is_empty() {
            return Self::Empty;
        }
        let issued_by = secret.annotations().get(ISSUED).cloned();
        parse(&pem.0, issued_by).map_or(Self::Unreadable, Self::Certificate)
    }
}

fn parse(pem: &[u8], issued_by: Option<String>) -> Option<Certificate> {
    let (_, pem) = parse_x509_pem(pem).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let time = |seconds| Timestamp::from_second(seconds).ok();
    let names = certificate.subject_alternative_name().ok().flatten();
    let hosts = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(host) => Some((*host).to_owned()),
            _ => None,
        });
    Some(Certificate {
        hosts: hosts.collect(),
        from: time(certificate.validity().not_before.timestamp())?,
        until: time(certificate.validity().not_after.timestamp())?,
        issued_by,
    })
}

impl Certificate {
    /// Whether the certificate is valid for this host.
    pub fn is_for(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        let above = host.split_once('.').map(|(_, rest)| rest);
        self.hosts.iter().any(|name| {
            let name = name.to_lowercase();
            name == host || name.strip_prefix("*.").is_some_and(|rest| Some(rest) == above)
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// Returns a certificate for a host, which ends with a day of the year 2026.
    pub fn pem(hosts: &[&str], (month, day): (u8, u8)) -> String {
        let mut params =
            CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    pub fn secret(pem: &str) -> Secret {
        Secret {
            data: Some([(CERTIFICATE.to_owned(), ByteString(pem.as_bytes().to_vec()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn hosts_and_expiry_of_a_certificate_are_read() {
        let Tls::Certificate(certificate) = Tls::read(Some(&secret(&pem(
            &["shop.example.com", "*.shop.example.com"],
            (12, 31),
        )))) else {
            panic!("it is a certificate");
        };
        assert_eq!(certificate.until.to_string(), "2026-12-31T00:00:00Z");
        assert_eq!(certificate.from.to_string(), "2026-01-01T00:00:00Z");
        for (host, is) in [
            ("shop.example.com", true),
            ("SHOP.example.com", true),
            ("a.shop.example.com", true),
            ("a.b.shop.example.com", false),
            ("example.com", false),
        ] {
            assert_eq!(certificate.is_for(host), is, "{host}");
        }
    }

    #[test]
    fn missing_and_unreadable_certificates_differ() {
        assert_eq!(Tls::read(None), Tls::Missing);
        assert_eq!(Tls::read(Some(&Secret::default())), Tls::Empty);
        assert_eq!(Tls::read(Some(&secret(""))), Tls::Empty);
        assert_eq!(Tls::read(Some(&secret("nonsense"))), Tls::Unreadable);
    }
}
