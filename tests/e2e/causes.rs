//! Causes in the status, in tables and in waiting commands.

mod capture;
mod image_volume;
mod user_namespace;

use anyhow::{Context as _, Result, ensure};
use testcluster::checkout::Shell;

use crate::environment::{Environment, TestContext};
use crate::story::has;

pub use image_volume::missing_image_volumes_are_reported;
pub use user_namespace::missing_user_namespace_is_reported;

/// An app that does not become ready.
struct BrokenApp {
    /// The name.
    name: &'static str,
    /// The suffix of its namespace, after the name of the test's namespace.
    suffix: &'static str,
    /// The reason.
    reason: &'static str,
    /// A part of the message.
    sentence: &'static str,
    /// The start of the next command.
    next: &'static str,
}

const fn broken(name: &'static str, reason: &'static str, sentence: &'static str, next: &'static str) -> BrokenApp {
    let suffix = "";
    BrokenApp {
        name,
        suffix,
        reason,
        sentence,
        next,
    }
}

impl BrokenApp {
    const fn in_namespace(self, suffix: &'static str) -> Self {
        Self { suffix, ..self }
    }
}

/// In the order in which their causes appear.
const BROKEN: [BrokenApp; 29] = [
    broken(
        "taken",
        "NameConflict",
        "Service taken exists and is not managed by appdeploy",
        "kubectl appdeploy adopt taken",
    ),
    broken(
        "held",
        "ChildDeleting",
        "Deployment held is being deleted and waits for the finalizer example.com/hold",
        "kubectl edit deployment held",
    ),
    broken(
        "hungry",
        "Unschedulable",
        "too little memory left (a pod requests 100Ti memory)",
        "kubectl describe nodes",
    ),
    broken(
        "busy",
        "Unschedulable",
        "too little cpu left (a pod requests 1000 cpu)",
        "kubectl describe nodes",
    ),
    broken(
        "misplaced",
        "Unschedulable",
        "the one node lacks the labels of placement.nodeSelector (disktype=none)",
        "kubectl get nodes --show-labels",
    ),
    broken(
        "accountless",
        "MissingServiceAccount",
        "ServiceAccount absent does not exist",
        "kubectl create serviceaccount absent",
    ),
    broken(
        "many",
        "QuotaExceeded",
        "ResourceQuota small has no room for another pod (pods: 0 of 0 used, 1 needed)",
        "kubectl describe quota small",
    )
    .in_namespace("-quota"),
    broken(
        "wide",
        "OutsideLimitRange",
        "maximum memory usage per Container is 64Mi, but limit is 128Mi",
        "kubectl appdeploy set resources wide --limits=memory=64Mi",
    )
    .in_namespace("-limits"),
    broken(
        "loose",
        "PodSecurity",
        "Pod Security Standard restricted, which the pods do not meet: unrestricted capabilities",
        "kubectl patch appdeploy loose",
    )
    .in_namespace("-secure"),
    broken(
        "unwelcome",
        "PodsRefused",
        "refuses the pods: not this one",
        "kubectl appdeploy edit unwelcome",
    ),
    broken(
        "unheard",
        "PodsRefused",
        "no pods can be created while the webhook causes.example.com does not answer",
        "kubectl get mutatingwebhookconfigurations",
    ),
    broken(
        "wrong-image",
        "ImageNotFound",
        "image nginx:no-such-tag was not found",
        "kubectl appdeploy set image wrong-image=IMAGE",
    ),
    broken(
        "keyless",
        "MissingKey",
        "Secret db has no key password",
        "kubectl patch secret db",
    ),
    broken(
        "fileless",
        "MissingKey",
        "ConfigMap web has no key nginx.conf",
        "kubectl patch configmap web",
    ),
    broken(
        "assetless",
        "ImageNotFound",
        "image nginx:no-such-assets of volume assets was not found",
        "kubectl appdeploy edit assetless",
    ),
    broken(
        "lookless",
        "MissingConfigMap",
        "ConfigMap look does not exist",
        "kubectl create configmap look",
    ),
    broken(
        "wordless",
        "CommandNotFound",
        "the image has no nosuchcommand to run",
        "kubectl appdeploy edit wordless",
    ),
    broken(
        "rootless",
        "RunsAsRoot",
        "the image runs as root",
        "kubectl appdeploy edit rootless",
    ),
    broken(
        "crash",
        "CrashLoop",
        "with exit code 3; its last words: \"no database at db:5432\"",
        "kubectl appdeploy logs",
    ),
    broken(
        "migration",
        "CrashLoop",
        "init container migrate fails, with exit code 3; its last words: \"no table\"",
        "kubectl appdeploy logs migration",
    ),
    broken(
        "proxied",
        "CrashLoop",
        "sidecar proxy ends by itself, with exit code 1",
        "kubectl appdeploy logs proxied",
    ),
    broken(
        "accompanied",
        "ImageNotFound",
        "image busybox:no-such-tag of sidecar proxy was not found",
        "kubectl appdeploy edit accompanied",
    ),
    broken(
        "greedy",
        "OutOfMemory",
        "allows, which is 16Mi",
        "kubectl appdeploy set resources greedy --limits=memory=32Mi",
    ),
    broken(
        "tiny",
        "MemoryLimitTooSmall",
        "resources.limits.memory is 64 bytes, too little to start a container",
        "kubectl appdeploy set resources tiny --limits=memory=64Mi",
    ),
    broken(
        "unrunnable",
        "ContainerFailed",
        "exec: \"/etc/passwd\": permission denied",
        "kubectl describe pods",
    ),
    broken(
        "lost",
        "NotHealthy",
        "GET /nope on port 80 answers with status 404",
        "kubectl appdeploy logs",
    ),
    broken(
        "older",
        "ImageNotFound",
        "image nginx:no-such-tag was not found; 1 pod of an earlier revision still serves, undo with: kubectl appdeploy undo older",
        "kubectl appdeploy set image older=IMAGE",
    ),
    broken(
        "elsewhere",
        "NotHealthy",
        "nothing listens on port 81",
        "kubectl appdeploy set port elsewhere=PORT",
    ),
    broken(
        "ill",
        "NotHealthy",
        "GET /healthz on port 80 answers with status 404",
        "kubectl appdeploy logs",
    ),
];

const CREATE: &str = r#"
for suffix in -quota -limits -secure; do
  kubectl delete namespace $NS$suffix --ignore-not-found --timeout=2m
  kubectl create namespace $NS$suffix
  kubectl label namespace $NS$suffix e2e=test
done
kubectl create quota small --hard=pods=0 --namespace $NS-quota
kubectl label namespace $NS-secure pod-security.kubernetes.io/enforce=restricted
kubectl create service clusterip taken --tcp=80
kubectl create secret generic db --from-literal=user=me
kubectl create configmap web --from-literal=index.html=hello
kubectl apply --filename - <<END
apiVersion: v1
kind: LimitRange
metadata: { name: small, namespace: $NS-limits }
spec:
  limits:
  - type: Container
    max: { memory: 64Mi }
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: { name: e2e-causes }
spec:
  matchConstraints:
    objectSelector: { matchLabels: { appdeploy.dev/app: unwelcome } }
    resourceRules:
    - { apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods] }
  validations:
  - { expression: "false", message: not this one }
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: e2e-causes }
spec: { policyName: e2e-causes, validationActions: [Deny] }
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: e2e-causes }
webhooks:
- name: causes.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: { url: "https://127.0.0.1:1/" }
  objectSelector: { matchLabels: { appdeploy.dev/app: unheard } }
  rules:
  - { apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods] }
END
# The API server calls both after a moment.
for app in unwelcome unheard; do
  while kubectl run probe --image nginx --labels appdeploy.dev/app=$app --dry-run=server; do sleep 0.5; done
done
kubectl appdeploy create older --image nginx --port 80 --wait
kubectl appdeploy set image older=nginx:no-such-tag
kubectl appdeploy create held --image nginx --port 80 --wait
kubectl patch deployment held --type merge --patch '{"metadata":{"finalizers":["example.com/hold"]}}'
kubectl delete deployment held --wait=false
kubectl appdeploy create tiny --image nginx --port 80 --limits memory=64
kubectl appdeploy create lost --image nginx --port 80 --health-path /nope
kubectl appdeploy create wrong-image --image nginx:no-such-tag --port 80
kubectl appdeploy create taken --image nginx --port 80
kubectl appdeploy create hungry --image nginx --port 80 --requests memory=100Ti
kubectl appdeploy create busy --image nginx --port 80 --requests cpu=1000
kubectl appdeploy create misplaced --image nginx --port 80 --node-selector disktype=none
kubectl appdeploy create accountless --image nginx --port 80 --service-account absent
kubectl appdeploy create many --image nginx --port 80 --namespace $NS-quota
kubectl appdeploy create wide --image nginx --port 80 --limits memory=128Mi --namespace $NS-limits
kubectl appdeploy create loose --image nginx --port 80 --namespace $NS-secure
kubectl appdeploy create unwelcome --image nginx --port 80
kubectl appdeploy create unheard --image nginx --port 80
kubectl appdeploy create elsewhere --image nginx --port 81
kubectl apply --filename - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: keyless }
spec:
  image: nginx
  port: 80
  env:
  - name: PASSWORD
    valueFrom:
      secretKeyRef: { name: db, key: password }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: lookless }
spec:
  image: nginx
  port: 80
  env:
  - name: COLOUR
    valueFrom:
      configMapKeyRef: { name: look, key: colour }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: fileless }
spec:
  image: nginx
  port: 80
  volumes:
  - { name: config, mountPath: /etc/nginx/conf.d, configMap: { name: web, items: [{ key: nginx.conf, path: default.conf }] } }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: assetless }
spec:
  image: nginx
  port: 80
  volumes:
  - { name: assets, mountPath: /assets, image: { reference: 'nginx:no-such-assets' } }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: wordless }
spec: { image: busybox, command: [nosuchcommand] }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: unrunnable }
spec: { image: busybox, command: [/etc/passwd] }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: rootless }
spec: { image: nginx, port: 80, securityProfile: Restricted }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: crash }
spec: { image: busybox, command: [sh, -c, 'exec >&2; echo starting; echo no database at db:5432; exit 3'] }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: migration }
spec:
  image: nginx
  port: 80
  initContainers:
  - { name: migrate, image: busybox, command: [sh, -c, 'echo no table; exit 3'] }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: proxied }
spec:
  image: nginx
  port: 80
  sidecars:
  - { name: proxy, image: busybox, command: ['false'] }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: accompanied }
spec:
  image: nginx
  port: 80
  sidecars:
  - { name: proxy, image: 'busybox:no-such-tag' }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: greedy }
spec: { image: busybox, command: [tail, /dev/zero], resources: { limits: { memory: 16Mi } } }
---
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: ill }
spec: { image: nginx, port: 80, healthCheck: { path: /healthz, startupSeconds: 5 } }
END
"#;

/// No pod can be scheduled: the cluster has one node.
const TAINT: &str = r"
kubectl taint nodes --all example.com/e2e-causes=yes:NoSchedule
kubectl appdeploy create shunned --image nginx --port 80
";

const SHUNNED: BrokenApp = broken(
    "shunned",
    "Unschedulable",
    "the one node has a taint that they do not tolerate",
    "kubectl get nodes -o custom-columns=",
);

/// Without this, the namespace can't be deleted.
const REMOVE_FINALIZER: &str =
    r#"kubectl patch deployment held --type merge --patch '{"metadata":{"finalizers":null}}'"#;

/// Deletes the objects outside the namespace of the test when it is dropped.
struct Cleanup<'a>(&'a Shell, &'a str);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let Self(shell, namespace) = self;
        // Another run is possible with what is left.
        let _ = shell.run(&format!(
            "{REMOVE_FINALIZER} || true
            kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding,validatingwebhookconfiguration e2e-causes \
                --ignore-not-found || true
            kubectl delete namespace {namespace}-quota {namespace}-limits {namespace}-secure --ignore-not-found --wait=false"
        ));
    }
}

pub fn causes_are_in_status_table_and_waits(environment: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    let _cleanup = Cleanup(shell, &context.namespace);
    shell.run(&CREATE.replace("$NS", &context.namespace))?;
    let foreign = "kubectl get service taken --output yaml";
    let before = shell.run(foreign)?;
    for app in &BROKEN {
        cause_is_reported(environment, context, app)?;
    }
    cause_is_reported_soon(shell)?;
    cause_is_stable(shell)?;
    crash_ends_a_wait(shell)?;
    shell.run(REMOVE_FINALIZER)?;
    let all = shell.run("kubectl appdeploy status")?;
    // The finalizer was removed, so `held` has no cause.
    let is_broken = |app: &&BrokenApp| app.suffix.is_empty() && app.name != "held";
    for BrokenApp { name, reason, .. } in BROKEN.iter().filter(is_broken) {
        has(&all, &[name, reason])?;
    }
    ensure!(shell.run(foreign)? == before, "the third-party Service was changed");
    Ok(())
}

/// Runs alone: the taint affects all pods.
pub fn taint_is_reported(environment: &Environment, context: &TestContext) -> Result<()> {
    let _taint = Taint(&context.shell);
    context.shell.run(TAINT)?;
    cause_is_reported(environment, context, &SHUNNED)
}

/// Removes the taint when it is dropped.
struct Taint<'a>(&'a Shell);

impl Drop for Taint<'_> {
    fn drop(&mut self) {
        let _ = self.0.run("kubectl taint nodes --all example.com/e2e-causes-");
    }
}

fn cause_is_reported(environment: &Environment, context: &TestContext, app: &BrokenApp) -> Result<()> {
    let shell = &context.shell;
    let BrokenApp {
        name, reason, sentence, ..
    } = app;
    let namespace = format!("{}{}", context.namespace, app.suffix);
    let cause = format!("kubectl get appdeploy {name} --namespace {namespace} --output jsonpath='{{.status.cause}}'");
    // As the status has it, which is JSON, within single quotes.
    let words = sentence.replace('"', "\\\"").replace('\'', r"'\''");
    shell
        .run(&format!(
            "for i in $(seq 120); do {cause} | grep --quiet --fixed-strings '{words}' && exit; sleep 1; done; exit 1"
        ))
        .with_context(|| {
            let cause = shell.run(&cause).unwrap_or_default();
            format!("the cause of {name} has no {sentence:?}: {cause}")
        })?;
    capture::record(environment, context, name, &namespace)?;
    let row = shell.run(&format!("kubectl get ad {name} --namespace {namespace}"))?;
    has(&row, &[reason])?;
    let status = shell.run(&format!(
        "COLUMNS=400 kubectl appdeploy status {name} --namespace {namespace}"
    ))?;
    has(&status, &[reason, sentence, app.next])?;
    // Waiting commands print the same cause.
    let waited = shell.run(&format!(
        "COLUMNS=400 kubectl appdeploy status {name} --namespace {namespace} --until=ready --timeout=1s 2>&1 || true
        kubectl wait --for=condition=Ready=false appdeploy/{name} --namespace {namespace} --timeout=1s"
    ))?;
    has(&waited, &[sentence, app.next, "condition met"])
}

/// Prints the seconds between the kubelet's first Event and the operator's, which it creates with the status.
const DELAYS: &str = r#"
for app in tiny lost; do
  pod=$(kubectl get pods --selector appdeploy.dev/app=$app --output name | head -n 1 | cut -d / -f 2)
  first() {
    kubectl get events --field-selector "$1" --output jsonpath='{range .items[*]}{.firstTimestamp}{.eventTime}{"\n"}{end}' |
      grep --only-matching '[0-9-]*T[0-9:]*' | sort | head -n 1
  }
  reported=$(first "involvedObject.kind=Pod,involvedObject.name=$pod,type=Warning")
  caused=$(first "involvedObject.kind=AppDeploy,involvedObject.name=$app")
  echo "$app $(($(date --date "${caused}Z" +%s) - $(date --date "${reported}Z" +%s)))"
done
"#;

fn cause_is_reported_soon(shell: &Shell) -> Result<()> {
    let delays = shell.run(DELAYS)?;
    let of = |line: &str| Some(line.split_once(' ')?.1.parse::<i64>().ok());
    let seconds: Vec<Option<i64>> = delays.lines().filter_map(of).collect();
    let is_soon = |delay: &Option<i64>| delay.is_some_and(|delay| delay <= 15);
    ensure!(
        seconds.len() == 2 && seconds.iter().all(is_soon),
        "the cause was not reported within 15 s: {delays}"
    );
    Ok(())
}

/// The kubelet restarts `lost` every minute. The cause is the same in all states of its container.
const RESTART: &str = r#"
pod=$(kubectl get pods --selector appdeploy.dev/app=lost --output name)
restarts=$(kubectl get $pod --output jsonpath='{.status.containerStatuses[0].restartCount}')
kubectl get appdeploy lost --watch --output jsonpath='{.status.cause.reason}/{.status.cause.message}{"\n"}' &
watch=$!
kubectl wait $pod --for=jsonpath='{.status.containerStatuses[0].restartCount}'=$((restarts + 1)) --timeout=150s >&2
# Until the new container has also failed its probe.
sleep 10
kill $watch
"#;

fn cause_is_stable(shell: &Shell) -> Result<()> {
    let causes = shell.run(RESTART)?;
    let other = causes.lines().find(|line| !line.starts_with("NotHealthy/"));
    ensure!(
        other.is_none() && !causes.is_empty(),
        "the cause of lost has changed: {causes}"
    );
    Ok(())
}

/// `--wait` ends before its timeout when the command of the app exits. Without a health check, the app would be ready for the
/// moment in which its container runs.
fn crash_ends_a_wait(shell: &Shell) -> Result<()> {
    let ended = shell.run(
        r#"said=$(kubectl appdeploy create once --image busybox --port 80 --health-path / --wait --timeout 2m --command -- false 2>&1) || code=$?
        echo "code $code: $said""#,
    )?;
    has(
        &ended,
        &["code 3", "will not become ready by itself", "with exit code 1"],
    )
}
