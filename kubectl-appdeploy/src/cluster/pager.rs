//! Lists in pages, so that the first rows are printed before the last are read.

use std::marker::PhantomData;

use kube::api::{DynamicObject, ListParams, ObjectList, Request};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::cluster::api_error::is_missing_api;
use crate::cluster::connection::Cluster;
use crate::error::Result;

/// The objects of a page, as kubectl has it.
const SIZE: u32 = 500;

/// The pages of a list, fetched with one request each.
pub struct Pager<'a, K = DynamicObject> {
    cluster: &'a Cluster,
    list: Request,
    /// The token of the next page; `None` after the last page.
    next: Option<ListParams>,
    /// Whether a kind that the cluster does not know has no objects, instead of being an error.
    is_forgiving: bool,
    items: PhantomData<K>,
}

impl<'a> Pager<'a> {
    /// Returns the pages of the objects of the cluster's kind, in a namespace or in all, with these labels.
    pub fn of(cluster: &'a Cluster, namespace: Option<&str>, selector: Option<&str>) -> Self {
        let params = ListParams {
            label_selector: selector.map(str::to_owned),
            ..ListParams::default()
        };
        Self::list(cluster, &cluster.objects(namespace), params)
    }

    /// Treats a kind that the cluster does not have as one without objects.
    pub fn of_known_kinds(self) -> Self {
        Self {
            is_forgiving: true,
            ..self
        }
    }

    /// Decodes the objects as another type, which may have only a part of their fields.
    pub fn decoded_as<T>(self) -> Pager<'a, T> {
        Pager {
            cluster: self.cluster,
            list: self.list,
            next: self.next,
            is_forgiving: self.is_forgiving,
            items: PhantomData,
        }
    }

    /// Returns the objects of all pages.
    pub async fn all(mut self) -> Result<Vec<DynamicObject>> {
        let mut all = Vec::new();
        while let Some(mut page) = self.next().await? {
            all.append(&mut page);
        }
        Ok(all)
    }
}

impl<'a, K: Clone + DeserializeOwned> Pager<'a, K> {
    /// Returns the pages of the list that `params` describes.
    pub fn list(cluster: &'a Cluster, api: &Api<K>, params: ListParams) -> Self
    where
        K: Resource,
    {
        Self {
            cluster,
            list: Request::new(api.resource_url()),
            next: Some(params.limit(SIZE)),
            is_forgiving: false,
            items: PhantomData,
        }
    }

    /// Returns the next page; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Vec<K>>> {
        self.attempt().await?.map_err(|source| self.cluster.explain(source))
    }

    /// Like [`Self::next`], but returns the error of the API server to the caller.
    pub async fn attempt(&mut self) -> Result<kube::Result<Option<Vec<K>>>> {
        let Some(mut params) = self.next.take() else {
            return Ok(Ok(None));
        };
        let page = loop {
            match self.cluster.attempt(self.page(&params)).await? {
                Ok(page) => break page,
                Err(kube::Error::Api(status)) if self.is_forgiving && is_missing_api(&status) => return Ok(Ok(None)),
                Err(error) => match continue_token(&error) {
                    // The API server keeps a list for some minutes, and the reader may take longer. The rest is more recent.
                    Some(token) if params.continue_token.as_ref() != Some(&token) => {
                        params = params.continue_token(&token);
                    }
                    _ => return Ok(Err(error)),
                },
            }
        };
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.next = token.map(|token| params.continue_token(&token));
        Ok(Ok(Some(page.items)))
    }

    async fn page(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        let request = self.list.list(params).map_err(kube::Error::BuildRequest)?;
        self.cluster.client.request(request).await
    }
}

/// Returns the token with which the API server continues an expired list.
fn continue_token(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code == 410 => {
            let token = status.metadata.as_ref()?.continue_.as_ref()?;
            (!token.is_empty()).then(|| token.clone())
        }
        _ => None,
    }
}
