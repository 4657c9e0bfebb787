//! Makes calls to queue services.

use std::sync::Arc;
use std::time::Duration;

use model::queue::{Answer, Call, CallError, CredentialsError, Desired};
use sqs::{AddressPolicy, Clients, Credentials, Endpoint, Error, LimitSettings};
use tracing::debug;

use super::credentials::CredentialsReader;
use crate::call::Caller;
use crate::key::Key;
use crate::lease::Fenced;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The longest that a call waits for its turn.
const WAIT: Duration = Duration::from_secs(4);

/// The longest that a call may take after that.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that both may take. It is longer than their sum, so that the limits of the endpoint see each call that hangs.
const DEADLINE: Duration = Duration::from_secs(10);

/// Makes calls to queue services, each with the credentials of its AppQueue. Calls pass the fence, also those that only read: a
/// replica that no longer leads calls no service.
pub struct Service {
    caller: Caller,
    metrics: Arc<Metrics>,
    clients: Clients,
    /// Reads credentials.
    pub credentials: CredentialsReader,
}

impl Service {
    /// Returns a service that has made no call yet.
    #[must_use]
    pub fn new(caller: Caller, metrics: Arc<Metrics>, settings: &Settings) -> Self {
        let policy = if settings.allow_local_queue_endpoints {
            AddressPolicy::AllowLocal
        } else {
            AddressPolicy::RefuseLocal
        };
        let limits = LimitSettings {
            wait: WAIT,
            timeout: TIMEOUT,
            ..LimitSettings::default()
        };
        let credentials = CredentialsReader::new(caller.clone(), settings.queue_credentials.clone());
        Self {
            caller,
            metrics,
            clients: Clients::new(policy, limits),
            credentials,
        }
    }

    /// Makes a call for the AppQueue `key`. While it is being deleted, credentials that were read before serve also if their
    /// Secret was deleted.
    ///
    /// # Errors
    /// Returns the service's error, or why no call was made.
    pub async fn call(
        &self,
        key: &Key,
        desired: &Desired,
        is_deleting: bool,
        call: &Call,
    ) -> Result<Answer, CallError> {
        let secret = desired.secret.as_ref().map(|name| Key::new(&key.namespace, name));
        let credentials = match &secret {
            Some(secret) => match self.credentials.of_secret(secret).await {
                Err(error) if is_deleting && has_lost_credentials(&error) => {
                    self.credentials.last_of_secret(secret).ok_or(error)?
                }
                found => found?,
            },
            None => self.own_credentials(key, desired).await?,
        };
        let endpoint = match &desired.endpoint {
            Some(url) => Endpoint::parse(url, &desired.region),
            None => Endpoint::aws(&desired.region),
        };
        let client = self.clients.client(
            endpoint.map_err(|error| CallError::Refused(error.to_string()))?,
            credentials,
        );
        let action = call.action();
        let answer = match self.caller.effect(DEADLINE, send(&client, &desired.name, call)).await {
            Ok(answer) => answer.map_err(error),
            Err(Fenced::Closed) => return Err(CallError::Unavailable("another operator may lead by now".to_owned())),
            Err(Fenced::TimedOut(limit)) => {
                let why = format!("no answer within {limit:.0?}");
                Err(if call.is_write() {
                    CallError::Lost(why)
                } else {
                    CallError::Unavailable(why)
                })
            }
        };
        self.metrics.queue_call(action, answer.is_ok());
        debug!(
            action,
            error = answer.as_ref().err().map(tracing::field::display),
            "called the queue service"
        );
        if let (Err(CallError::Denied(_)), Some(secret)) = (&answer, &secret) {
            self.credentials.refused(secret);
        }
        answer
    }

    /// Returns the operator's own credentials, for a queue whose name begins with the namespace.
    async fn own_credentials(&self, key: &Key, desired: &Desired) -> Result<Arc<Credentials>, CallError> {
        let credentials = self.credentials.own().await?;
        let prefix = format!("{}_", key.namespace);
        if !desired.name.starts_with(&prefix) {
            return Err(CallError::NoCredentials(CredentialsError::ForeignName(prefix)));
        }
        Ok(credentials)
    }
}

/// Whether the Secret with the credentials was deleted, or the right to read it. Both go with a namespace.
pub fn has_lost_credentials(error: &CallError) -> bool {
    matches!(
        error,
        CallError::NoCredentials(CredentialsError::SecretMissing(_) | CredentialsError::SecretForbidden(_))
    )
}

async fn send(client: &sqs::Client, name: &str, call: &Call) -> Result<Answer, Error> {
    let done = |()| Answer::Done;
    match call {
        Call::GetUrl => client.queue_url(name).await.map(Answer::Url),
        Call::GetAttributes { url } => client.attributes(url).await.map(Answer::Attributes),
        Call::GetTags { url } => client.tags(url).await.map(Answer::Tags),
        Call::Create { attributes, tags } => client.create_queue(name, attributes, tags).await.map(Answer::Url),
        Call::SetAttributes { url, attributes } => client.set_attributes(url, attributes).await.map(done),
        Call::Tag { url, tags } => client.tag(url, tags).await.map(done),
        Call::Untag { url, keys } => client.untag(url, keys).await.map(done),
        Call::Delete { url } => client.delete(url).await.map(done),
    }
}

fn error(error: Error) -> CallError {
    let retry_after = error
        .retry_after()
        .map(|wait| u32::try_from(wait.as_secs()).unwrap_or(u32::MAX));
    match error {
        Error::NoSuchQueue => CallError::NoSuchQueue,
        Error::DeletedRecently => CallError::DeletedRecently,
        Error::AttributesDiffer { .. } => CallError::AttributesDiffer,
        Error::Throttled { .. } => CallError::Throttled { retry_after },
        Error::Denied { code, message } => CallError::Denied(format!("{code}: {message}")),
        Error::Refused { code, message } => CallError::Refused(format!("{code}: {message}")),
        Error::AddressNotAllowed { .. } => CallError::Refused(error.to_string()),
        Error::Unavailable { why, .. } => CallError::Unavailable(why),
        Error::Lost { why } => CallError::Lost(why),
    }
}
