//! Certificates of another program, such as cert-manager: two files, read again when they change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::fs;
use tokio::time::sleep;
use tracing::{info, warn};

use super::certificate::{key, material};
use super::served::Served;

/// The time between two reads. The files are small.
const PERIOD: Duration = Duration::from_secs(10);

/// Serves the certificate in a folder, and each one that replaces it. An invalid one is logged once, and the previous certificate
/// is kept. Does not return.
pub async fn follow(folder: &Path, served: &Served) {
    let mut reported = String::new();
    loop {
        match show(folder, served).await {
            Ok(is_news) => {
                reported.clear();
                if is_news {
                    info!(folder = %folder.display(), expires = served.expires_at(), "read a certificate for webhooks");
                }
            }
            Err(error) => {
                let error = format!("{error:#}");
                if error != reported {
                    warn!(error, "the certificate for webhooks can't be used; waiting for another");
                    reported = error;
                }
            }
        }
        sleep(PERIOD).await;
    }
}

async fn show(folder: &Path, served: &Served) -> anyhow::Result<bool> {
    let read = async |name| {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).await;
        text.with_context(|| format!("{} can't be read", path.display()))
    };
    let (certificate, key) = (read(key::CERTIFICATE).await?, read(key::CERTIFICATE_KEY).await?);
    // If they change between the two reads, they do not match, and are read again.
    let pair = material::certified(&certificate, &key);
    let (pair, span) = pair.with_context(|| format!("of {}", folder.display()))?;
    Ok(served.show(Arc::new(pair), span.end))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jiff::Timestamp;

    use super::*;
    use crate::webhook::certificate::life::Action;
    use crate::webhook::certificate::material::{Data, Material};
    use crate::webhook::certificate::{Lifetimes, names};

    fn write(folder: &Path, days: u64, keys: &[&str]) {
        let names = names("appdeploy-system");
        let lifetimes = Lifetimes {
            certificate: Duration::from_secs(days * 24 * 60 * 60),
            ..Lifetimes::default()
        };
        let nothing = Material::read(&Data::new(), &names);
        let data = nothing
            .act(Action::Create, &lifetimes, &names, Timestamp::now())
            .unwrap();
        for key in keys {
            fs::write(folder.join(key), &data[*key].0).unwrap();
        }
    }

    fn days(served: &Served) -> Option<i64> {
        let left = served.expires_at()? - Timestamp::now().as_second();
        Some((left + 3600) / (24 * 60 * 60))
    }

    #[tokio::test(start_paused = true)]
    async fn usable_certificates_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let served = Served::default();
        let look = async || {
            let following = follow(folder.path(), &served);
            let _ = tokio::time::timeout(3 * PERIOD, following).await;
            days(&served)
        };
        assert_eq!(look().await, None, "nothing is there");
        write(folder.path(), 10, &[key::CERTIFICATE, key::CERTIFICATE_KEY]);
        assert_eq!(look().await, Some(10));
        write(folder.path(), 20, &[key::CERTIFICATE]);
        assert_eq!(look().await, Some(10), "its key is not there yet");
        fs::write(folder.path().join(key::CERTIFICATE_KEY), "?").unwrap();
        assert_eq!(look().await, Some(10), "no key at all");
        write(folder.path(), 30, &[key::CERTIFICATE, key::CERTIFICATE_KEY]);
        assert_eq!(look().await, Some(30));
    }
}
