//! Access keys.

use secrecy::{ExposeSecret, SecretString};

/// The fewest bytes of a secret that is redacted. A made-up one for a test server, such as `x`, is part of many words.
const REDACTED: usize = 8;

/// An access key of AWS. Its debug output has neither the secret key nor the session token.
#[derive(Clone, Debug)]
pub struct Credentials {
    access_key_id: String,
    secret_access_key: SecretString,
    session_token: Option<SecretString>,
}

impl Credentials {
    /// Returns the credentials of an access key, with the session token if the key is temporary.
    #[must_use]
    pub fn new(access_key_id: String, secret_access_key: String, session_token: Option<String>) -> Self {
        Self {
            access_key_id,
            secret_access_key: secret_access_key.into(),
            session_token: session_token.map(Into::into),
        }
    }

    /// Returns the ID of the access key, which is not secret.
    #[must_use]
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    pub(crate) fn secret_access_key(&self) -> &str {
        self.secret_access_key.expose_secret()
    }

    pub(crate) fn session_token(&self) -> Option<&str> {
        self.session_token.as_ref().map(ExposeSecret::expose_secret)
    }

    /// Replaces the secret key and the session token in a text of the server, which may repeat the request.
    pub(crate) fn redact(&self, text: &str) -> String {
        [Some(self.secret_access_key()), self.session_token()]
            .into_iter()
            .flatten()
            .filter(|secret| secret.len() >= REDACTED)
            .fold(text.to_owned(), |text, secret| text.replace(secret, "[redacted]"))
    }
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.access_key_id == other.access_key_id
            && self.secret_access_key() == other.secret_access_key()
            && self.session_token() == other.session_token()
    }
}

impl Eq for Credentials {}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        Credentials::new("AKID".into(), "hush-hush".into(), Some("whispered".into()))
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let text = format!("{:?}", credentials());
        assert!(text.contains("AKID"), "{text}");
        assert!(!text.contains("hush") && !text.contains("whispered"), "{text}");
    }

    #[test]
    fn secrets_are_redacted_from_messages() {
        let text = "x-amz-security-token:whispered is not hush-hush";
        assert_eq!(
            credentials().redact(text),
            "x-amz-security-token:[redacted] is not [redacted]"
        );
    }

    #[test]
    fn short_secrets_of_test_servers_leave_messages_readable() {
        for secret in ["", "x", "test"] {
            let credentials = Credentials::new("AKID".into(), secret.into(), None);
            assert_eq!(credentials.redact("a test of x"), "a test of x");
        }
    }

    #[test]
    fn credentials_with_another_token_differ() {
        let other = Credentials::new("AKID".into(), "hush-hush".into(), None);
        assert_ne!(credentials(), other);
        assert_eq!(credentials(), credentials());
    }
}
