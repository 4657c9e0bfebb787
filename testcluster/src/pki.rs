//! Certificates of a throw-away cluster: one authority, and what it vouches for.
//!
//! Everything is ECDSA P-256, also the key that signs service-account tokens: it is made in
//! microseconds, where an RSA key would cost each test a part of a second.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Time for a clock that is wrong, and for a cluster that a person keeps.
const VALID_BEFORE: SignedDuration = SignedDuration::from_hours(24);
const VALID_AFTER: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key or certificate could not be made or read.
    #[error("failed to make the certificate of {subject:?}")]
    Sign {
        /// Whose certificate.
        subject: String,
        /// The reason.
        source: rcgen::Error,
    },
    /// A file could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The authority that all parts of one cluster trust.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn new(name: &str) -> Result<Self, Error> {
        let sign = failed(name);
        let key = KeyPair::generate().map_err(&sign)?;
        let params = authority(name);
        let certificate = params.self_signed(&key).map_err(&sign)?.pem();
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Returns the authority that was made under `name` and kept as PEM.
    ///
    /// # Errors
    /// When `key` is not a private key.
    pub fn from_pem(name: &str, certificate: &str, key: &str) -> Result<Self, Error> {
        let key = KeyPair::from_pem(key).map_err(failed(name))?;
        Ok(Self {
            certificate: certificate.to_owned(),
            issuer: Issuer::new(authority(name), key),
        })
    }

    /// Returns the authority's certificate as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the authority's own identity, for a program that signs in its name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            certificate: self.certificate.clone(),
            key: self.issuer.key().serialize_pem(),
        }
    }

    /// Issues a server certificate for host names and addresses.
    ///
    /// # Errors
    /// When one of `hosts` is neither.
    pub fn server(&self, name: &str, hosts: &[&str]) -> Result<Identity, Error> {
        self.sign(name, &[], hosts, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate in Kubernetes' format: the common name is the user, each organization a group.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, Error> {
        self.sign(user, groups, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        name: &str,
        groups: &[&str],
        hosts: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, Error> {
        let sign = failed(name);
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = limited(CertificateParams::new(hosts).map_err(&sign)?);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(&sign)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(&sign)?.pem();
        Ok(Identity {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

/// A certificate and its private key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key` to `folder`; the key is readable for this user only.
    ///
    /// # Errors
    /// When the files can't be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(PathBuf, PathBuf), Error> {
        let certificate = folder.join(format!("{name}.crt"));
        let key = folder.join(format!("{name}.key"));
        write(&certificate, &self.certificate)?;
        write(&key, &self.key)?;
        Ok((certificate, key))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key that is not printed can't end up in a CI log.
        f.debug_struct("Identity")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Writes a new key pair for service-account tokens to `<name>.pub` and `<name>.key`.
///
/// # Errors
/// When the files can't be written.
pub fn write_key_pair(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf), Error> {
    let pair = KeyPair::generate().map_err(failed(name))?;
    let public = folder.join(format!("{name}.pub"));
    let private = folder.join(format!("{name}.key"));
    write(&public, &pair.public_key_pem())?;
    write(&private, &pair.serialize_pem())?;
    Ok((public, private))
}

/// Writes a file that only this user may read.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
}

fn authority(name: &str) -> CertificateParams {
    let mut params = limited(CertificateParams::default());
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    params
}

fn limited(mut params: CertificateParams) -> CertificateParams {
    let day = |timestamp: Timestamp| {
        let date = timestamp.to_zoned(TimeZone::UTC).date();
        rcgen::date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    let now = Timestamp::now();
    params.not_before = day(now - VALID_BEFORE);
    params.not_after = day(now + VALID_AFTER);
    params
}

fn failed(subject: &str) -> impl Fn(rcgen::Error) -> Error {
    let subject = subject.to_owned();
    move |source| Error::Sign {
        subject: subject.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};

    use super::*;

    #[test]
    fn stored_authority_signs_valid_certificates() {
        let first = Authority::new("ca").unwrap();
        let kept = first.identity();
        let again = Authority::from_pem("ca", &kept.certificate, &kept.key).unwrap();
        let server = again.server("web", &["127.0.0.1", "localhost"]).unwrap();
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();

        let mut roots = RootCertStore::empty();
        roots.add(der(first.certificate())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        let verify = |host: &'static str| {
            let host = host.try_into().unwrap();
            verifier.verify_server_cert(&der(&server.certificate), &[], &host, &[], UnixTime::now())
        };
        verify("127.0.0.1").unwrap();
        verify("localhost").unwrap();
        verify("example.com").unwrap_err();
    }

    #[test]
    fn private_key_is_readable_by_its_user_only_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Authority::new("ca").unwrap().client("alice", &["dev"]).unwrap();
        let (_, key) = identity.write(folder.path(), "alice").unwrap();
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!format!("{identity:?}").contains("PRIVATE"));
    }
}
