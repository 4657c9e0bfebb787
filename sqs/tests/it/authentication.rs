//! Authentication with moto, which checks signatures, keys and permissions.
//!
//! What it can't show: an expired token, and a clock that differs from the server's.

use std::net::Ipv4Addr;

use sqs::Error;
use testcluster::queue_servers::{AccessKey, Moto};

use crate::servers::client;

fn denial(result: Result<Vec<String>, Error>) -> String {
    match result {
        Err(Error::Denied { code, .. }) => code,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn only_valid_credentials_are_accepted() {
    let mut moto = Moto::start(Ipv4Addr::LOCALHOST.into()).unwrap();
    let url = moto.url();
    let key = moto.key().clone();
    client(&url, &key).list("").await.unwrap();

    let wrong = AccessKey {
        secret: "wrong".to_owned(),
        ..key.clone()
    };
    assert_eq!(denial(client(&url, &wrong).list("").await), "SignatureDoesNotMatch");
    let unknown = AccessKey {
        id: "AKIAUNKNOWN".to_owned(),
        ..key.clone()
    };
    assert_eq!(denial(client(&url, &unknown).list("").await), "InvalidClientTokenId");

    // Permissions that are revoked and restored.
    moto.deny().unwrap();
    assert_eq!(denial(client(&url, &key).list("").await), "AccessDenied");
    moto.allow().unwrap();
    client(&url, &key).list("").await.unwrap();

    // A key that is replaced.
    moto.rotate_key().unwrap();
    assert_eq!(denial(client(&url, &key).list("").await), "InvalidClientTokenId");
    client(&url, moto.key()).list("").await.unwrap();

    // Temporary keys are valid with their session token only, which is part of the signature.
    let temporary = moto.temporary_key().unwrap();
    assert!(temporary.token.is_some());
    client(&url, &temporary).list("").await.unwrap();
    let without = AccessKey {
        token: None,
        ..temporary
    };
    assert_eq!(denial(client(&url, &without).list("").await), "InvalidClientTokenId");
}
