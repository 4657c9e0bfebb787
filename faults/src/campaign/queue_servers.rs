//! The queue servers of a cluster.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use testcluster::queue_servers::{ElasticMq, Moto};

use super::service::Server;

/// The queue servers of a cluster, which are started when they are needed.
#[derive(Debug, Default)]
pub struct Servers {
    elasticmq: Mutex<Option<Arc<ElasticMq>>>,
    /// Those that no run uses.
    motos: Mutex<Vec<Moto>>,
}

impl Servers {
    pub(super) fn get(&self, server: Server) -> Result<Running> {
        let local = Ipv4Addr::LOCALHOST.into();
        if server == Server::Moto {
            let free = self.motos.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let moto = free.map_or_else(|| Moto::start(local), Ok)?;
            return Ok(Running::Moto(moto));
        }
        let mut elasticmq = self.elasticmq.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match elasticmq.as_ref() {
            Some(running) => running.clone(),
            None => Arc::new(ElasticMq::start(local)?),
        };
        *elasticmq = Some(shared.clone());
        Ok(Running::ElasticMq(shared))
    }

    pub(super) fn free(&self, running: Running) {
        if let Running::Moto(moto) = running {
            self.motos.lock().unwrap_or_else(PoisonError::into_inner).push(moto);
        }
    }
}

/// A queue server that runs.
#[derive(Debug)]
pub(super) enum Running {
    ElasticMq(Arc<ElasticMq>),
    Moto(Moto),
}
