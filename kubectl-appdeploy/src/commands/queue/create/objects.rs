//! The objects that `queue create` writes.

use crd::AppQueue;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ObjectMeta;
use model::command;
use serde_json::Value;

use super::grant;
use super::spec::QueueArgs;
use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::kind_info::{QUEUE, title};
use crate::commands::change::{self, creation};
use crate::error::{Error, Result};
use crate::installation::manifests::Kind;
use crate::output::formats::{self, Done, DryRun};
use crate::resource::fields::put;
use crate::resource::{queue, validation};

/// The objects of a command, in the order in which they are written. The operator has its right before it sees the AppQueue.
pub struct Objects {
    grant: Vec<(Kind, Value)>,
    queue: Option<Value>,
}

impl Objects {
    /// Returns the objects that the flags describe, if they are valid.
    pub fn of(args: &QueueArgs, name: &str, namespace: &str) -> Result<Self> {
        let object = AppQueue {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: args.labels(),
                ..ObjectMeta::default()
            },
            spec: args.spec()?,
            status: None,
        };
        validation::queue(&object)?;
        let secret = object.spec.credentials.as_ref().map(|from| &from.secret_ref.name);
        Ok(Self {
            grant: secret.map_or_else(Vec::new, |secret| grant::objects(namespace, secret)),
            queue: Some(formats::presentable(&object)),
        })
    }

    /// Returns the grant for an existing AppQueue.
    pub async fn grant_only(cluster: &Cluster, name: &str) -> Result<Self> {
        let found = queue::read(&cluster.get(name).await?);
        let Some(credentials) = &found.spec.credentials else {
            return Err(Error::failed(format!(
                "{} has no credentials of its own: nothing was changed",
                title(&QUEUE, name)
            ))
            .why("without spec.credentials, the operator uses the credentials that an administrator gave it")
            .next(command!("kubectl edit appqueue {} -n {}", name, cluster.namespace)));
        };
        Ok(Self {
            grant: grant::objects(&cluster.namespace, &credentials.secret_ref.name),
            queue: None,
        })
    }

    /// Sends all objects. With a server dry run nothing is stored.
    pub async fn send(&self, cluster: &Cluster, dry_run: DryRun) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        for (kind, object) in &self.grant {
            let applied = apply(cluster, kind, object, dry_run).await;
            done.push(applied.map_err(|error| {
                if error.is_forbidden() {
                    error.why("it lets the operator read the Secret with the credentials")
                } else {
                    error
                }
            })?);
        }
        if let Some(object) = &self.queue {
            let body = formats::json(object)?;
            let created = cluster.call(creation::post(cluster, body, dry_run)).await?;
            done.push(Done {
                title: title(&QUEUE, object["metadata"]["name"].as_str().unwrap_or_default()),
                word: "created",
                is_held: false,
                object: formats::presentable(&created),
            });
        }
        Ok(done)
    }

    /// Removes the namespace from all objects.
    pub fn for_any_namespace(&mut self) {
        let grant = self.grant.iter_mut().map(|(_, object)| object);
        for object in grant.chain(&mut self.queue) {
            put(&mut object["metadata"], "namespace", None);
        }
    }

    /// Returns what a creation prints, without sending anything.
    pub fn as_created(&self) -> Vec<Done> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let done = |title: String, object: &Value| Done {
            title,
            word: "created",
            is_held: false,
            object: object.clone(),
        };
        let grant = self.grant.iter();
        let grant = grant.map(|(kind, object)| done(kind.title(&name(object)), object));
        let queue = self
            .queue
            .iter()
            .map(|object| done(title(&QUEUE, &name(object)), object));
        grant.chain(queue).collect()
    }
}

/// Applies a Role or a RoleBinding. Several queues can share one, because they can share a Secret.
async fn apply(cluster: &Cluster, kind: &Kind, object: &Value, dry_run: DryRun) -> Result<Done> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let api = kind.api(&cluster.client, Some(&cluster.namespace));
    let before = cluster.call(api.get_opt(name)).await?;
    let params = PatchParams {
        dry_run: dry_run == DryRun::Server,
        ..PatchParams::apply(MANAGER)
    };
    let written: Result<DynamicObject> = match cluster.attempt(api.patch(name, &params, &Patch::Apply(object))).await? {
        Ok(written) => Ok(written),
        // The Role of a new RoleBinding exists only after the dry run, which has accepted it.
        Err(kube::Error::Api(status))
            if dry_run == DryRun::Server && *kind == Kind::role_binding() && grant::is_missing_role(&status, name) =>
        {
            Ok(serde_json::from_value(object.clone())
                .map_err(|source| Error::failed(format!("cannot read the RoleBinding: {source}")))?)
        }
        Err(source) => Err(cluster.explain(source)),
    };
    let written = written?;
    let word = match &before {
        None => "created",
        Some(before) if before.metadata.resource_version == written.metadata.resource_version => change::UNCHANGED,
        Some(_) => "configured",
    };
    Ok(Done {
        title: kind.title(name),
        word,
        is_held: false,
        object: formats::presentable(&written),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::queue::create::Args;
    use crate::output::yaml;
    use crate::terminal::ui::RenderOptions;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn created(line: &str) -> String {
        let args = match Line::try_parse_from(std::iter::once("create").chain(line.split(' '))) {
            Ok(line) => line.args,
            Err(error) => return error.to_string().lines().next().unwrap_or_default().to_owned(),
        };
        let name = args.name.clone();
        let text = Objects::of(&args.spec, &name, "shop").and_then(|objects| {
            let grant = objects.grant.into_iter().map(|(_, object)| object);
            let all = grant.chain(objects.queue).map(|object| yaml::write(&object));
            Ok(all.collect::<Result<Vec<_>>>()?.join("---\n"))
        });
        text.unwrap_or_else(|error| error.text(&RenderOptions::default()))
    }

    #[test]
    fn queue_with_credentials_has_a_role_for_one_secret() {
        insta::assert_snapshot!(created("orders --region=us-east-1 --endpoint=http://sqs.example:9324 --credentials=sqs --visibility-timeout=45s"), @r#"
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        metadata:
          labels:
            app.kubernetes.io/managed-by: kubectl-appdeploy
          name: appdeploy-queue-sqs
          namespace: shop
        rules:
        - apiGroups:
          - ""
          resourceNames:
          - sqs
          resources:
          - secrets
          verbs:
          - get
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata:
          labels:
            app.kubernetes.io/managed-by: kubectl-appdeploy
          name: appdeploy-queue-sqs
          namespace: shop
        roleRef:
          apiGroup: rbac.authorization.k8s.io
          kind: Role
          name: appdeploy-queue-sqs
        subjects:
        - kind: ServiceAccount
          name: appdeploy-operator
          namespace: appdeploy-system
        ---
        apiVersion: appdeploy.dev/v1alpha1
        kind: AppQueue
        metadata:
          name: orders
          namespace: shop
        spec:
          credentials:
            secretRef:
              name: sqs
          sqs:
            endpoint: http://sqs.example:9324
            region: us-east-1
            visibilityTimeoutSeconds: 45
        "#);
    }

    #[test]
    fn all_flags_reach_the_spec_and_without_credentials_nothing_is_granted() {
        insta::assert_snapshot!(created("orders --region=us-east-1 --type=fifo --queue-name=o --message-retention=96h --delay=1m --receive-wait=20s --max-message-bytes=2048 --dead-letter=failed --max-receive-count=5 --tag=team=shop --tag=cost=a=b --deletion-policy=retain --adoption-policy=IfExists -l team=shop"), @r"
        apiVersion: appdeploy.dev/v1alpha1
        kind: AppQueue
        metadata:
          labels:
            team: shop
          name: orders
          namespace: shop
        spec:
          adoptionPolicy: IfExists
          deletionPolicy: Retain
          sqs:
            deadLetter:
              maxReceiveCount: 5
              queueRef:
                name: failed
            delaySeconds: 60
            maxMessageBytes: 2048
            messageRetentionSeconds: 345600
            queueName: o
            receiveWaitSeconds: 20
            region: us-east-1
            tags:
              cost: a=b
              team: shop
            type: FIFO
        ");
    }

    #[test]
    fn invalid_flags_are_rejected_with_what_to_write_instead() {
        let lines = [
            "orders",
            "orders --region=us-east-1 --type=topic",
            "orders --region=us-east-1 --dead-letter=failed",
            "orders --region=us-east-1 --visibility-timeout=13h --max-message-bytes=1",
            "orders --region=us-east-1 --delay=1500ms",
            "orders --region=us-east-1 --endpoint=sqs.example",
            "orders --region=us-east-1 --tag=aws:x=y --tag=a=1 --tag=a=2",
            "Orders --region=us-east-1 --tag=aws:x=y",
            "orders --grant-only --region=us-east-1",
        ];
        insta::assert_snapshot!(lines.map(created).join("\n"), @r"
        error: the following required arguments were not provided:
        error: invalid value 'topic' for '--type <TYPE>': must be Standard or FIFO
        error: the following required arguments were not provided:
        error: appqueue.appdeploy.dev/orders is invalid: nothing was changed
          why:  spec.sqs.visibilityTimeoutSeconds: must be a number from 0 to 43200
          why:  spec.sqs.maxMessageBytes: must be a number from 1024 to 1048576
        error: invalid value '1500ms' for '--delay <DURATION>': must be whole seconds, like 30s, 1m30s or 2h
        error: appqueue.appdeploy.dev/orders is invalid: nothing was changed
          why:  spec.sqs.endpoint: an endpoint is a URL of a server, without user, path and query; write it like https://sqs.example.com or http://sqs.shop.svc:9324
        error: --tag a is given twice: nothing was changed
        error: appqueue.appdeploy.dev/Orders is invalid: nothing was changed
          why:  metadata.name: the name becomes part of the queue's name and of environment variables: use lower-case letters, digits and '-', start with a letter and end with a letter or digit, like orders
          why:  spec.sqs.tags: the keys appdeploy.dev/... and aws:... are reserved: use another key
        error: the argument '--grant-only' cannot be used with '--region <REGION>'
        ");
    }
}
