//! Objects of a namespace that depend on a Deployment, a Service or the labels of pods.

use std::collections::BTreeMap;

use futures::join;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy, NetworkPolicyPeer};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

use crate::cluster::connection::Cluster;
use crate::error::Result;
use crate::resource::children::{Section, list};

/// The objects of a namespace that may depend on others.
#[derive(Clone, Debug)]
pub struct Dependents {
    pub services: Section<Service>,
    pub ingresses: Section<Ingress>,
    pub policies: Section<NetworkPolicy>,
    pub budgets: Section<PodDisruptionBudget>,
    pub scalers: Section<HorizontalPodAutoscaler>,
}

impl Default for Dependents {
    fn default() -> Self {
        Self {
            services: Ok(Vec::new()),
            ingresses: Ok(Vec::new()),
            policies: Ok(Vec::new()),
            budgets: Ok(Vec::new()),
            scalers: Ok(Vec::new()),
        }
    }
}

type Labels = BTreeMap<String, String>;

impl Dependents {
    /// Lists the objects, with one request for each kind.
    pub async fn list(cluster: &Cluster) -> Result<Self> {
        let (namespace, all) = (&cluster.namespace, kube::api::ListParams::default());
        let (services, ingresses, policies, budgets, scalers) = join!(
            list(cluster, namespace, &all),
            list(cluster, namespace, &all),
            list(cluster, namespace, &all),
            list(cluster, namespace, &all),
            list(cluster, namespace, &all),
        );
        Ok(Self {
            services: services?,
            ingresses: ingresses?,
            policies: policies?,
            budgets: budgets?,
            scalers: scalers?,
        })
    }

    /// Returns the resources that could not be listed.
    pub fn unreadable(&self) -> Vec<&'static str> {
        [
            (self.services.is_err(), "services"),
            (self.ingresses.is_err(), "ingresses"),
            (self.policies.is_err(), "networkpolicies"),
            (self.budgets.is_err(), "poddisruptionbudgets"),
            (self.scalers.is_err(), "horizontalpodautoscalers"),
        ]
        .into_iter()
        .filter_map(|(is_unreadable, resource)| is_unreadable.then_some(resource))
        .collect()
    }

    /// Reports autoscalers of a Deployment, whose changes the operator would revert.
    pub fn autoscalers(&self, deployment: &str) -> impl Iterator<Item = String> {
        let scalers = self.scalers.iter().flatten().filter(move |scaler| {
            let target = scaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
            target.is_some_and(|target| target.kind == "Deployment" && target.name == deployment)
        });
        scalers.map(|scaler| {
            format!(
                "horizontalpodautoscaler/{} scales the Deployment, which the operator would revert: set its scaleTargetRef to the AppDeploy",
                scaler.name_any()
            )
        })
    }

    /// Reports objects that select the old pods by their labels and would not select the new ones. `service` is not reported,
    /// because it is adopted.
    pub fn lost_selectors(&self, service: &str, old: &Labels, new: &Labels) -> Vec<String> {
        let loses = |selector: &LabelSelector| {
            Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(old) && !selector.matches(new))
        };
        let by_map = |labels: &Labels| {
            let has = |pod: &Labels| labels.iter().all(|(name, value)| pod.get(name) == Some(value));
            !labels.is_empty() && has(old) && !has(new)
        };
        let mut lost = Vec::new();
        for other in self
            .services
            .iter()
            .flatten()
            .filter(|other| other.name_any() != service)
        {
            let selector = other.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            if selector.is_some_and(by_map) {
                lost.push(format!(
                    "service/{} selects the old pods, and would not select the new ones",
                    other.name_any()
                ));
            }
        }
        for policy in self.policies.iter().flatten() {
            let Some(spec) = &policy.spec else { continue };
            let own = spec.pod_selector.as_ref().is_some_and(loses);
            let peers = spec
                .ingress
                .iter()
                .flatten()
                .flat_map(|rule| rule.from.iter().flatten());
            let peers = peers.chain(spec.egress.iter().flatten().flat_map(|rule| rule.to.iter().flatten()));
            let is_peer = |peer: &NetworkPolicyPeer| peer.pod_selector.as_ref().is_some_and(loses);
            if own || peers.into_iter().any(is_peer) {
                lost.push(format!(
                    "networkpolicy/{} selects the old pods, and would not select the new ones",
                    policy.name_any()
                ));
            }
        }
        for budget in self.budgets.iter().flatten() {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            if selector.is_some_and(loses) {
                lost.push(format!(
                    "poddisruptionbudget/{} selects the old pods, and would not select the new ones",
                    budget.name_any()
                ));
            }
        }
        lost
    }

    /// Returns the Ingresses other than the app's own that route to its Service, each with whether it names a port
    /// that the Service will not have.
    pub fn ingresses_of<'a>(
        &'a self,
        service: &'a str,
        has_one: bool,
        ports: &'a [String],
    ) -> impl Iterator<Item = (String, bool)> + 'a {
        let others = self
            .ingresses
            .iter()
            .flatten()
            .filter(move |other| !has_one || other.name_any() != service);
        others.filter_map(move |other| {
            let rules = other.spec.iter().flat_map(|spec| spec.rules.iter().flatten());
            let paths = rules.flat_map(|rule| rule.http.iter().flat_map(|http| &http.paths));
            let backends = paths.map(|path| &path.backend);
            let default = other.spec.iter().flat_map(|spec| &spec.default_backend);
            let backends = backends.chain(default).filter_map(|backend| backend.service.as_ref());
            let named: Vec<_> = backends
                .filter(|backend| backend.name == service)
                .map(|backend| backend.port.as_ref().and_then(|port| port.name.clone()))
                .collect();
            let breaks = named.iter().flatten().any(|port| !ports.contains(port));
            (!named.is_empty()).then(|| (format!("ingress/{}", other.name_any()), breaks))
        })
    }
}
