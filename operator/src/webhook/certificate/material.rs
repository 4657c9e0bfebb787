//! Reads keys and certificates from the Secret, and creates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::life::{Action, Leaf, SecretState, Span};
use super::{Lifetimes, SERVICE, key};

/// The data of the Secret.
pub type Data = BTreeMap<String, ByteString>;

/// The content of the Secret.
#[derive(Clone)]
pub struct Material {
    /// The part that decisions depend on.
    pub state: SecretState,
    /// The certificate with its key, if it is complete.
    pub served: Option<Arc<CertifiedKey>>,
    authorities: Vec<CertificateDer<'static>>,
    authority_key: Option<Arc<KeyPair>>,
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are not printed.
        f.debug_struct("Material")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Material {
    /// Reads the data of a Secret. Unusable parts count as missing.
    #[must_use]
    pub fn read(data: &Data, names: &[String]) -> Self {
        let text = |key| data.get(key).and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
        let bundle = text(key::AUTHORITIES);
        let blocks = bundle
            .and_then(|bundle| pem::parse_many(bundle).ok())
            .unwrap_or_default();
        let (mut authorities, mut spans) = (Vec::new(), Vec::new());
        for block in &blocks {
            if let Some((certificate, span)) = authority(block) {
                authorities.push(certificate);
                spans.push(span);
            }
        }
        let authority_key = text(key::AUTHORITY_KEY)
            .and_then(|key| KeyPair::from_pem(key).ok())
            .filter(|key| authorities.first().is_some_and(|first| fits(first, key)));
        let pair = text(key::CERTIFICATE).zip(text(key::CERTIFICATE_KEY));
        let whole = pair.and_then(|(certificate, key)| {
            let (served, span) = certified(certificate, key).ok()?;
            let place = |by: &CertificateDer<'static>| vouches(by, &served, span, names);
            let signer = authorities.iter().position(place)?;
            Some((served, Leaf { span, signer }))
        });
        let state = SecretState {
            is_littered: bundle.is_some_and(|bundle| bundle != bundle_of(&authorities)),
            authorities: spans,
            can_sign: authority_key.is_some(),
            leaf: whole.as_ref().map(|(_, leaf)| *leaf),
        };
        Self {
            state,
            served: whole.map(|(served, _)| Arc::new(served)),
            authorities,
            authority_key: authority_key.map(Arc::new),
        }
    }

    /// Returns the trusted authorities, as PEM, the newest first.
    #[must_use]
    pub fn bundle(&self) -> String {
        bundle_of(&self.authorities)
    }

    /// Carries out an action, and returns the new data of the Secret.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers, or the time is out of the range of certificates.
    pub fn act(&self, action: Action, lifetimes: &Lifetimes, names: &[String], now: Timestamp) -> anyhow::Result<Data> {
        let mut data = Data::new();
        let mut put = |key: &str, text: String| data.insert(key.to_owned(), ByteString(text.into_bytes()));
        match action {
            Action::Create | Action::AddAuthority => {
                let made = Authority::make(lifetimes, now)?;
                let mut bundle = vec![made.certificate.clone()];
                if action == Action::Create {
                    let (certificate, key) = made.sign(lifetimes, names, now)?;
                    put(key::CERTIFICATE, certificate);
                    put(key::CERTIFICATE_KEY, key);
                } else {
                    let all = self.authorities.iter().zip(&self.state.authorities);
                    bundle.extend(all.filter(|(_, span)| now < span.end).map(|(der, _)| der.clone()));
                }
                put(key::AUTHORITIES, bundle_of(&bundle));
                put(key::AUTHORITY_KEY, made.key.serialize_pem());
            }
            Action::Sign => {
                let (certificate, key) = self.newest()?.sign(lifetimes, names, now)?;
                put(key::CERTIFICATE, certificate);
                put(key::CERTIFICATE_KEY, key);
            }
            Action::DropAuthorities => {
                let newest = self.authorities.get(..1).unwrap_or_default();
                put(key::AUTHORITIES, bundle_of(newest));
            }
        }
        Ok(data)
    }

    fn newest(&self) -> anyhow::Result<Authority> {
        let (certificate, span) = self
            .authorities
            .first()
            .zip(self.state.authorities.first())
            .context(MISSING)?;
        Ok(Authority {
            certificate: certificate.clone(),
            key: self.authority_key.clone().context(MISSING)?,
            end: span.end,
        })
    }
}

const MISSING: &str = "the authority is missing";

/// An authority that can sign.
struct Authority {
    certificate: CertificateDer<'static>,
    key: Arc<KeyPair>,
    end: Timestamp,
}

impl Authority {
    fn make(lifetimes: &Lifetimes, now: Timestamp) -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("failed to create a key")?;
        // Each has its own name, so that they can be distinguished.
        let name = format!("{SERVICE}-ca@{}", now.as_second());
        let end = now.checked_add(lifetimes.authority)?;
        let mut params = params(&name, Vec::new(), lifetimes, now, end)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).context("failed to sign")?.into();
        Ok(Self {
            certificate,
            key: Arc::new(key),
            end,
        })
    }

    fn sign(&self, lifetimes: &Lifetimes, names: &[String], now: Timestamp) -> anyhow::Result<(String, String)> {
        let key = KeyPair::generate().context("failed to create a key")?;
        // Not longer than the authority: clients check both.
        let end = now.checked_add(lifetimes.certificate)?.min(self.end);
        let mut params = params(SERVICE, names.to_vec(), lifetimes, now, end)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issuer = Issuer::from_ca_cert_der(&self.certificate, &*self.key).context("the authority can't be read")?;
        let certificate = params.signed_by(&key, &issuer).context("failed to sign")?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

fn params(
    name: &str,
    names: Vec<String>,
    lifetimes: &Lifetimes,
    now: Timestamp,
    end: Timestamp,
) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names).context("a name is invalid")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // Rounded up: otherwise it would seem to be older than it is when it is read again.
    let begin = now.as_second() + i64::from(now.subsec_nanosecond() > 0);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |second: i64| {
        let second = u64::try_from(second).context("the clock is before 1970")?;
        anyhow::Ok(epoch + std::time::Duration::from_secs(second))
    };
    params.not_before = at(begin.saturating_sub_unsigned(lifetimes.skew.as_secs()))?;
    params.not_after = at(end.as_second())?;
    Ok(params)
}

/// Reads a certificate and its key.
///
/// # Errors
/// Returns which of them can't be used, or that they do not match.
pub fn certified(certificate: &str, key: &str) -> anyhow::Result<(CertifiedKey, Span)> {
    let blocks = pem::parse_many(certificate).context("the certificate is not PEM")?;
    let chain: Vec<_> = blocks.iter().filter_map(certificate_in).collect();
    let Some(leaf) = chain.first() else {
        bail!("there is no certificate")
    };
    let (span, _) = read(leaf).context("the certificate can't be read")?;
    let key = pem::parse(key).context("the key is not PEM")?;
    ensure!(key.tag().ends_with("PRIVATE KEY"), "the key is a {}", key.tag());
    let key = PrivateKeyDer::try_from(key.into_contents()).map_err(|error| anyhow::anyhow!("the key: {error}"))?;
    let pair = CertifiedKey::from_der(chain, key, &provider()).context("the certificate and the key do not match")?;
    Ok((pair, span))
}

/// Returns the implementation of cryptography.
pub(in crate::webhook) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificate_in(block: &Pem) -> Option<CertificateDer<'static>> {
    (block.tag() == "CERTIFICATE").then(|| block.contents().to_vec().into())
}

fn authority(block: &Pem) -> Option<(CertificateDer<'static>, Span)> {
    let certificate = certificate_in(block)?;
    let (span, is_authority) = read(&certificate)?;
    is_authority.then_some((certificate, span))
}

/// Returns the validity of a certificate, and whether it is a CA certificate.
fn read(certificate: &CertificateDer<'_>) -> Option<(Span, bool)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let validity = parsed.validity();
    let span = Span {
        begin: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
        end: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
    };
    Some((span, parsed.is_ca()))
}

fn fits(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
    let parsed = X509Certificate::from_der(certificate);
    parsed.is_ok_and(|(_, parsed)| *parsed.public_key().subject_public_key.data == *key.public_key_raw())
}

/// Whether an authority has signed a certificate for all these names, regardless of the time.
fn vouches(authority: &CertificateDer<'static>, pair: &CertifiedKey, span: Span, names: &[String]) -> bool {
    let mut roots = RootCertStore::empty();
    let Some((leaf, between)) = pair.cert.split_first() else {
        return false;
    };
    if roots.add(authority.clone()).is_err() {
        return false;
    }
    let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build() else {
        return false;
    };
    let begin = u64::try_from(span.begin.as_second()).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(begin));
    names.iter().all(|name| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| verifier.verify_server_cert(leaf, between, &name, &[], at).is_ok())
    })
}

fn bundle_of(authorities: &[CertificateDer<'static>]) -> String {
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let block = |der: &CertificateDer<'static>| pem::encode_config(&Pem::new("CERTIFICATE", der.to_vec()), lines);
    authorities.iter().map(block).collect()
}
