//! The credentials for queue services: of a Secret, or those that an administrator has given the operator.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::GetParams;
use kube::core::{Request, Resource as _};
use model::queue::{CallError as QueueError, CredentialsError};
use sqs::Credentials;
use tokio::fs;
use tokio::time::Instant;

use crate::call::{CallError, Caller, about};
use crate::key::Key;

/// How long a Secret is used before it is read again.
const FRESH: Duration = Duration::from_secs(3600);

/// The minimum time between two reads of a Secret whose credentials a service refuses.
const BETWEEN_READS: Duration = Duration::from_secs(10);

const ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET_ACCESS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// Reads credentials, and keeps those of Secrets.
pub struct CredentialsReader {
    caller: Caller,
    /// The folder with the operator's own.
    own: Option<PathBuf>,
    secrets: Mutex<HashMap<Key, Known>>,
}

/// What was read of a Secret.
struct Known {
    read_at: Instant,
    is_refused: bool,
    credentials: Arc<Credentials>,
}

impl Known {
    fn is_usable(&self, now: Instant) -> bool {
        let age = now.duration_since(self.read_at);
        age < if self.is_refused { BETWEEN_READS } else { FRESH }
    }
}

impl CredentialsReader {
    /// Returns a reader that has read nothing yet.
    #[must_use]
    pub fn new(caller: Caller, own: Option<PathBuf>) -> Self {
        Self {
            caller,
            own,
            secrets: Mutex::default(),
        }
    }

    /// Returns the credentials in a Secret of a namespace. It is read at the first time, hourly, and after its credentials were
    /// refused.
    ///
    /// # Errors
    /// Returns why there are none.
    pub async fn of_secret(&self, secret: &Key) -> Result<Arc<Credentials>, QueueError> {
        let known = self
            .lock()
            .get(secret)
            .filter(|known| known.is_usable(Instant::now()))
            .map(|known| known.credentials.clone());
        if let Some(credentials) = known {
            return Ok(credentials);
        }
        let read = self.read(secret).await?;
        let mut secrets = self.lock();
        let known = secrets.remove(secret);
        // The same credentials stay refused until the next read.
        let is_refused = known
            .as_ref()
            .is_some_and(|known| known.is_refused && *known.credentials == read);
        let credentials = known
            .map(|known| known.credentials)
            .filter(|known| **known == read)
            .unwrap_or_else(|| Arc::new(read));
        let known = Known {
            read_at: Instant::now(),
            is_refused,
            credentials: credentials.clone(),
        };
        secrets.insert(secret.clone(), known);
        Ok(credentials)
    }

    /// Returns the credentials that were read last from a Secret, which may be gone.
    #[must_use]
    pub fn last_of_secret(&self, secret: &Key) -> Option<Arc<Credentials>> {
        self.lock().get(secret).map(|known| known.credentials.clone())
    }

    /// Notes that a service has refused the credentials of a Secret: it is read again soon.
    pub fn refused(&self, secret: &Key) {
        if let Some(known) = self.lock().get_mut(secret) {
            known.is_refused = true;
        }
    }

    /// Forgets the Secrets that no AppQueue names.
    pub fn keep(&self, is_named: impl Fn(&Key) -> bool) {
        self.lock().retain(|secret, _| is_named(secret));
    }

    /// Returns the operator's own credentials, as they are in its folder now.
    ///
    /// # Errors
    /// Returns why there are none.
    pub async fn own(&self) -> Result<Arc<Credentials>, QueueError> {
        let folder = self
            .own
            .as_ref()
            .ok_or(QueueError::NoCredentials(CredentialsError::NotConfigured))?;
        let mut data = BTreeMap::new();
        for key in [ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN] {
            match fs::read(folder.join(key)).await {
                Ok(value) => {
                    data.insert(key, value);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let file = folder.join(key);
                    return Err(QueueError::Unavailable(format!(
                        "{} can't be read: {error}",
                        file.display()
                    )));
                }
            }
        }
        let own = credentials(|key| data.get(key).map(Vec::as_slice));
        own.map(Arc::new).map_err(|key| {
            let secret = folder.display().to_string();
            QueueError::NoCredentials(CredentialsError::KeyMissing { secret, key })
        })
    }

    async fn read(&self, secret: &Key) -> Result<Credentials, QueueError> {
        let missing = |error: fn(String) -> CredentialsError| QueueError::NoCredentials(error(secret.name.to_string()));
        let request =
            Request::new(Secret::url_path(&(), Some(&secret.namespace))).get(&secret.name, &GetParams::default());
        let answer = self.caller.send::<Secret>("get", "secrets", request).await;
        match answer.and_then(|found| about(&secret.name, found)) {
            Ok(found) => {
                let data = found.data.unwrap_or_default();
                credentials(|key| data.get(key).map(|value| value.0.as_slice())).map_err(|key| {
                    let secret = secret.name.to_string();
                    QueueError::NoCredentials(CredentialsError::KeyMissing { secret, key })
                })
            }
            Err(CallError::Refused(status)) if status.is_not_found() => Err(missing(CredentialsError::SecretMissing)),
            Err(CallError::Refused(status)) if status.code == 403 => Err(missing(CredentialsError::SecretForbidden)),
            Err(error) => {
                let why = format!("Secret {} can't be read: {error}", secret.name);
                Err(QueueError::Unavailable(why))
            }
        }
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads credentials from the values of keys, or returns the key that is missing. White space around a value, such as the line
/// feed of a file, is not part of it.
fn credentials<'a>(value: impl Fn(&'static str) -> Option<&'a [u8]>) -> Result<Credentials, &'static str> {
    let read = |key| {
        let text = value(key).and_then(|value| std::str::from_utf8(value).ok());
        text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let required = |key| read(key).ok_or(key);
    Ok(Credentials::new(
        required(ACCESS_KEY_ID)?,
        required(SECRET_ACCESS_KEY)?,
        read(SESSION_TOKEN),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[(&'static str, &'static str)]) -> Result<Credentials, &'static str> {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        credentials(|key| data.get(key).map(|value| value.as_bytes()))
    }

    #[test]
    fn credentials_are_read_without_the_white_space_of_files() {
        let found = read(&[(ACCESS_KEY_ID, "AKID\n"), (SECRET_ACCESS_KEY, " hush ")]);
        assert_eq!(found, Ok(Credentials::new("AKID".into(), "hush".into(), None)));
        let found = read(&[
            (ACCESS_KEY_ID, "AKID"),
            (SECRET_ACCESS_KEY, "hush"),
            (SESSION_TOKEN, "token"),
        ]);
        assert_eq!(
            found,
            Ok(Credentials::new("AKID".into(), "hush".into(), Some("token".into())))
        );
    }

    #[test]
    fn missing_and_empty_keys_are_named() {
        let found = read(&[(ACCESS_KEY_ID, "AKID"), (SECRET_ACCESS_KEY, "\n")]);
        assert_eq!(found, Err(SECRET_ACCESS_KEY));
        assert_eq!(read(&[]), Err(ACCESS_KEY_ID));
    }
}
