//! The namespaces that an operator will manage, which must exist before it gets rights in them.

use kube::ResourceExt as _;
use model::command;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::installation::manifests::Kind;

/// Fails if a namespace does not exist or is being deleted, before anything is written.
pub async fn exist(cluster: &Cluster, namespaces: &[String]) -> Result<()> {
    let api = Kind::namespace().api(&cluster.client, None);
    let mut missing = Vec::new();
    // Its own is made by the installation.
    for name in namespaces.iter().filter(|name| *name != crd::OPERATOR_NAMESPACE) {
        match cluster.call(api.get_opt(name)).await? {
            None => missing.push(name),
            Some(found) if found.metadata.deletion_timestamp.is_some() => {
                return Err(Error::failed(format!(
                    "namespace {} is being deleted: nothing was changed",
                    found.name_any()
                )));
            }
            Some(_) => {}
        }
    }
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let subject = match &missing[..] {
        [_] => format!("namespace {first} does not exist"),
        all => format!(
            "namespaces {} do not exist",
            all.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
        ),
    };
    let error = Error::failed(format!("{subject}: nothing was changed"));
    Err(missing.iter().fold(error, |error, name| {
        error.next(command!("kubectl create namespace {}", name))
    }))
}
