//! Until when API servers can trust what answers them.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use x509_parser::pem::Pem;

/// Returns the time when the first webhook of a configuration has no valid CA certificate any more. `None` if no CA bundle can be
/// parsed.
pub fn end(configuration: &DynamicObject) -> Option<Timestamp> {
    let webhooks = configuration.data["webhooks"].as_array()?;
    let ends = webhooks.iter().map(|webhook| {
        let bundle = webhook["clientConfig"]["caBundle"].clone();
        let ByteString(pem) = serde_json::from_value(bundle).ok()?;
        last(&pem)
    });
    ends.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Returns when the last certificate in a PEM text expires. Other blocks are skipped.
fn last(pem: &[u8]) -> Option<Timestamp> {
    let blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let ends = blocks.filter_map(|block| {
        let certificate = block.parse_x509().ok()?;
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    });
    ends.max()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use serde_json::json;

    /// Returns a certificate that ends with this year.
    pub fn pem(year: i32) -> String {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 12, 31);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn last_ca_and_first_webhook_decide() {
        let of = |bundles: &[String]| {
            let webhooks: Vec<_> = bundles
                .iter()
                .map(|pem| json!({"clientConfig": {"caBundle": ByteString(pem.clone().into_bytes())}}))
                .collect();
            let object = json!({"metadata": {}, "webhooks": webhooks});
            end(&serde_json::from_value(object).unwrap()).map(|end| end.to_string())
        };
        let both = format!("{}{}", pem(2031), pem(2030));
        assert_eq!(of(std::slice::from_ref(&both)).as_deref(), Some("2031-12-31T00:00:00Z"));
        assert_eq!(of(&[both.clone(), pem(2029)]).as_deref(), Some("2029-12-31T00:00:00Z"));
        assert_eq!(of(&[both, "nonsense".to_owned()]), None);
    }
}
