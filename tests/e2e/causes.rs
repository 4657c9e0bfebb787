//! What a person reads when something is wrong.

use anyhow::{Context as _, Result, ensure};

use crate::story::has;
use crate::world::{Space, World};

/// An app that can't work: its name, the reason, what the sentence says, the next command.
const BROKEN: [(&str, &str, &str, &str); 4] = [
    (
        "wrong-image",
        "ImageNotFound",
        "image nginx:no-such-tag was not found",
        "kubectl edit appdeploy wrong-image",
    ),
    (
        "taken",
        "NameConflict",
        "Service taken exists and is not managed by appdeploy",
        "kubectl get service taken",
    ),
    (
        "hungry",
        "Unschedulable",
        "no node can take the pods",
        "kubectl describe nodes",
    ),
    (
        "keyless",
        "MissingKey",
        "Secret db has no key password",
        "kubectl patch secret db",
    ),
];

const CREATE: &str = r"
kubectl create service clusterip taken --tcp=80
kubectl create secret generic db --from-literal=user=me
kubectl appdeploy create wrong-image --image nginx:no-such-tag --port 80
kubectl appdeploy create taken --image nginx --port 80
kubectl appdeploy create hungry --image nginx --port 80 --requests memory=100Ti
kubectl apply --filename - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata:
  name: keyless
spec:
  image: nginx
  port: 80
  env:
  - name: PASSWORD
    valueFrom:
      secretKeyRef: { name: db, key: password }
END
";

pub fn what_is_wrong_is_told_three_ways(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    shell.run(CREATE)?;
    let theirs = "kubectl get service taken --output yaml";
    let before = shell.run(theirs)?;
    for (name, reason, sentence, next) in BROKEN {
        shell
            .run(&format!(
                "kubectl wait --for=jsonpath='{{.status.cause.reason}}'={reason} appdeploy/{name} --timeout=90s"
            ))
            .with_context(|| format!("{name} never said {reason}"))?;
        has(&shell.run(&format!("kubectl get ad {name}"))?, &["False", reason])?;
        let told = shell.run(&format!("COLUMNS=400 kubectl appdeploy status {name}"))?;
        has(&told, &[reason, sentence, next])?;
    }
    let all = shell.run("kubectl appdeploy status")?;
    for (name, reason, ..) in BROKEN {
        has(&all, &[name, reason])?;
    }
    ensure!(shell.run(theirs)? == before, "somebody else's Service was changed");
    Ok(())
}
