//! Renders environment variables.

use crd::{EnvFromReference, EnvFromSource, EnvVar, KeyRef};
use k8s_openapi::api::core::v1 as core;

pub(super) fn env_var(var: &EnvVar) -> core::EnvVar {
    core::EnvVar {
        name: var.name.clone(),
        value: var.value.clone(),
        value_from: var.value_from.as_ref().map(|source| core::EnvVarSource {
            secret_key_ref: source.secret_key_ref.as_ref().map(|key| {
                let KeyRef { name, key, optional } = key.clone();
                core::SecretKeySelector { name, key, optional }
            }),
            config_map_key_ref: source.config_map_key_ref.as_ref().map(|key| {
                let KeyRef { name, key, optional } = key.clone();
                core::ConfigMapKeySelector { name, key, optional }
            }),
            field_ref: source.field_ref.as_ref().map(|field| core::ObjectFieldSelector {
                // As the API server stores it.
                api_version: Some("v1".into()),
                field_path: field.field_path.as_str().into(),
            }),
            ..core::EnvVarSource::default()
        }),
    }
}

pub(super) fn env_from(source: &EnvFromSource) -> core::EnvFromSource {
    core::EnvFromSource {
        prefix: source.prefix.clone(),
        config_map_ref: source.config_map_ref.as_ref().map(|object| {
            let EnvFromReference { name, optional } = object.clone();
            core::ConfigMapEnvSource { name, optional }
        }),
        secret_ref: source.secret_ref.as_ref().map(|object| {
            let EnvFromReference { name, optional } = object.clone();
            core::SecretEnvSource { name, optional }
        }),
    }
}
