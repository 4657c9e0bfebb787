//! The fields of Kubernetes' messages in protobuf. Written by `make protobuf`; do not edit.

use super::message::{Descriptor, Type, field, list, message, omitted};

pub(super) static AFFINITY: Descriptor = message(
    "Affinity",
    &[
        field(1, "nodeAffinity", Type::Message(&NODE_AFFINITY)),
        field(2, "podAffinity", Type::Message(&POD_AFFINITY)),
        field(3, "podAntiAffinity", Type::Message(&POD_ANTI_AFFINITY)),
    ],
);

pub(super) static APP_ARMOR_PROFILE: Descriptor = message(
    "AppArmorProfile",
    &[field(1, "type", Type::Text), field(2, "localhostProfile", Type::Text)],
);

pub(super) static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Descriptor = message(
    "AWSElasticBlockStoreVolumeSource",
    &[
        field(1, "volumeID", Type::Text),
        omitted(2, "fsType", Type::Text),
        omitted(3, "partition", Type::Int),
        omitted(4, "readOnly", Type::Bool),
    ],
);

pub(super) static AZURE_DISK_VOLUME_SOURCE: Descriptor = message(
    "AzureDiskVolumeSource",
    &[
        field(1, "diskName", Type::Text),
        field(2, "diskURI", Type::Text),
        field(3, "cachingMode", Type::Text),
        field(4, "fsType", Type::Text),
        field(5, "readOnly", Type::Bool),
        field(6, "kind", Type::Text),
    ],
);

pub(super) static AZURE_FILE_VOLUME_SOURCE: Descriptor = message(
    "AzureFileVolumeSource",
    &[
        field(1, "secretName", Type::Text),
        field(2, "shareName", Type::Text),
        omitted(3, "readOnly", Type::Bool),
    ],
);

pub(super) static CAPABILITIES: Descriptor = message(
    "Capabilities",
    &[list(1, "add", Type::Text), list(2, "drop", Type::Text)],
);

pub(super) static CEPH_FS_VOLUME_SOURCE: Descriptor = message(
    "CephFSVolumeSource",
    &[
        list(1, "monitors", Type::Text),
        omitted(2, "path", Type::Text),
        omitted(3, "user", Type::Text),
        omitted(4, "secretFile", Type::Text),
        field(5, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        omitted(6, "readOnly", Type::Bool),
    ],
);

pub(super) static CINDER_VOLUME_SOURCE: Descriptor = message(
    "CinderVolumeSource",
    &[
        field(1, "volumeID", Type::Text),
        omitted(2, "fsType", Type::Text),
        omitted(3, "readOnly", Type::Bool),
        field(4, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
    ],
);

pub(super) static CLIENT_IP_CONFIG: Descriptor = message("ClientIPConfig", &[field(1, "timeoutSeconds", Type::Int)]);

pub(super) static CLUSTER_TRUST_BUNDLE_PROJECTION: Descriptor = message(
    "ClusterTrustBundleProjection",
    &[
        field(1, "name", Type::Text),
        field(2, "signerName", Type::Text),
        field(3, "labelSelector", Type::Message(&LABEL_SELECTOR)),
        field(4, "path", Type::Text),
        field(5, "optional", Type::Bool),
        field(6, "user", Type::Int),
    ],
);

pub(super) static CONDITION: Descriptor = message(
    "Condition",
    &[
        field(1, "type", Type::Text),
        field(2, "status", Type::Text),
        omitted(3, "observedGeneration", Type::Int),
        field(4, "lastTransitionTime", Type::Time),
        field(5, "reason", Type::Text),
        field(6, "message", Type::Text),
    ],
);

pub(super) static CONFIG_MAP_ENV_SOURCE: Descriptor = message(
    "ConfigMapEnvSource",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        field(2, "optional", Type::Bool),
    ],
);

pub(super) static CONFIG_MAP_KEY_SELECTOR: Descriptor = message(
    "ConfigMapKeySelector",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        field(2, "key", Type::Text),
        field(3, "optional", Type::Bool),
    ],
);

pub(super) static CONFIG_MAP_PROJECTION: Descriptor = message(
    "ConfigMapProjection",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        list(2, "items", Type::Message(&KEY_TO_PATH)),
        field(4, "optional", Type::Bool),
    ],
);

pub(super) static CONFIG_MAP_VOLUME_SOURCE: Descriptor = message(
    "ConfigMapVolumeSource",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        list(2, "items", Type::Message(&KEY_TO_PATH)),
        field(3, "defaultMode", Type::Int),
        field(4, "optional", Type::Bool),
        field(5, "defaultUser", Type::Int),
    ],
);

pub(super) static CONTAINER: Descriptor = message(
    "Container",
    &[
        field(1, "name", Type::Text),
        omitted(2, "image", Type::Text),
        list(3, "command", Type::Text),
        list(4, "args", Type::Text),
        omitted(5, "workingDir", Type::Text),
        list(6, "ports", Type::Message(&CONTAINER_PORT)),
        list(7, "env", Type::Message(&ENV_VAR)),
        field(8, "resources", Type::Message(&RESOURCE_REQUIREMENTS)),
        list(9, "volumeMounts", Type::Message(&VOLUME_MOUNT)),
        field(10, "livenessProbe", Type::Message(&PROBE)),
        field(11, "readinessProbe", Type::Message(&PROBE)),
        field(12, "lifecycle", Type::Message(&LIFECYCLE)),
        omitted(13, "terminationMessagePath", Type::Text),
        omitted(14, "imagePullPolicy", Type::Text),
        field(15, "securityContext", Type::Message(&SECURITY_CONTEXT)),
        omitted(16, "stdin", Type::Bool),
        omitted(17, "stdinOnce", Type::Bool),
        omitted(18, "tty", Type::Bool),
        list(19, "envFrom", Type::Message(&ENV_FROM_SOURCE)),
        omitted(20, "terminationMessagePolicy", Type::Text),
        list(21, "volumeDevices", Type::Message(&VOLUME_DEVICE)),
        field(22, "startupProbe", Type::Message(&PROBE)),
        list(23, "resizePolicy", Type::Message(&CONTAINER_RESIZE_POLICY)),
        field(24, "restartPolicy", Type::Text),
        list(25, "restartPolicyRules", Type::Message(&CONTAINER_RESTART_RULE)),
    ],
);

pub(super) static CONTAINER_PORT: Descriptor = message(
    "ContainerPort",
    &[
        omitted(1, "name", Type::Text),
        omitted(2, "hostPort", Type::Int),
        field(3, "containerPort", Type::Int),
        omitted(4, "protocol", Type::Text),
        omitted(5, "hostIP", Type::Text),
    ],
);

pub(super) static CONTAINER_RESIZE_POLICY: Descriptor = message(
    "ContainerResizePolicy",
    &[
        field(1, "resourceName", Type::Text),
        field(2, "restartPolicy", Type::Text),
    ],
);

pub(super) static CONTAINER_RESTART_RULE: Descriptor = message(
    "ContainerRestartRule",
    &[
        omitted(1, "action", Type::Text),
        field(2, "exitCodes", Type::Message(&CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
    ],
);

pub(super) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Descriptor = message(
    "ContainerRestartRuleOnExitCodes",
    &[omitted(1, "operator", Type::Text), list(2, "values", Type::Int)],
);

pub(super) static CSI_VOLUME_SOURCE: Descriptor = message(
    "CSIVolumeSource",
    &[
        field(1, "driver", Type::Text),
        field(2, "readOnly", Type::Bool),
        field(3, "fsType", Type::Text),
        field(4, "volumeAttributes", Type::Map(&Type::Text)),
        field(5, "nodePublishSecretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
    ],
);

pub(super) static DEPLOYMENT: Descriptor = message(
    "Deployment",
    &[
        field(1, "metadata", Type::Message(&OBJECT_META)),
        field(2, "spec", Type::Message(&DEPLOYMENT_SPEC)),
        field(3, "status", Type::Message(&DEPLOYMENT_STATUS)),
    ],
);

pub(super) static DEPLOYMENT_CONDITION: Descriptor = message(
    "DeploymentCondition",
    &[
        field(1, "type", Type::Text),
        field(2, "status", Type::Text),
        omitted(4, "reason", Type::Text),
        omitted(5, "message", Type::Text),
        field(6, "lastUpdateTime", Type::Time),
        field(7, "lastTransitionTime", Type::Time),
    ],
);

pub(super) static DEPLOYMENT_SPEC: Descriptor = message(
    "DeploymentSpec",
    &[
        field(1, "replicas", Type::Int),
        field(2, "selector", Type::Message(&LABEL_SELECTOR)),
        field(3, "template", Type::Message(&POD_TEMPLATE_SPEC)),
        field(4, "strategy", Type::Message(&DEPLOYMENT_STRATEGY)),
        omitted(5, "minReadySeconds", Type::Int),
        field(6, "revisionHistoryLimit", Type::Int),
        omitted(7, "paused", Type::Bool),
        field(9, "progressDeadlineSeconds", Type::Int),
    ],
);

pub(super) static DEPLOYMENT_STATUS: Descriptor = message(
    "DeploymentStatus",
    &[
        omitted(1, "observedGeneration", Type::Int),
        omitted(2, "replicas", Type::Int),
        omitted(3, "updatedReplicas", Type::Int),
        omitted(4, "availableReplicas", Type::Int),
        omitted(5, "unavailableReplicas", Type::Int),
        list(6, "conditions", Type::Message(&DEPLOYMENT_CONDITION)),
        omitted(7, "readyReplicas", Type::Int),
        field(8, "collisionCount", Type::Int),
        field(9, "terminatingReplicas", Type::Int),
    ],
);

pub(super) static DEPLOYMENT_STRATEGY: Descriptor = message(
    "DeploymentStrategy",
    &[
        omitted(1, "type", Type::Text),
        field(2, "rollingUpdate", Type::Message(&ROLLING_UPDATE_DEPLOYMENT)),
    ],
);

pub(super) static DOWNWARD_API_PROJECTION: Descriptor = message(
    "DownwardAPIProjection",
    &[list(1, "items", Type::Message(&DOWNWARD_API_VOLUME_FILE))],
);

pub(super) static DOWNWARD_API_VOLUME_FILE: Descriptor = message(
    "DownwardAPIVolumeFile",
    &[
        field(1, "path", Type::Text),
        field(2, "fieldRef", Type::Message(&OBJECT_FIELD_SELECTOR)),
        field(3, "resourceFieldRef", Type::Message(&RESOURCE_FIELD_SELECTOR)),
        field(4, "mode", Type::Int),
        field(5, "user", Type::Int),
    ],
);

pub(super) static DOWNWARD_API_VOLUME_SOURCE: Descriptor = message(
    "DownwardAPIVolumeSource",
    &[
        list(1, "items", Type::Message(&DOWNWARD_API_VOLUME_FILE)),
        field(2, "defaultMode", Type::Int),
        field(3, "defaultUser", Type::Int),
    ],
);

pub(super) static EMPTY_DIR_VOLUME_SOURCE: Descriptor = message(
    "EmptyDirVolumeSource",
    &[
        omitted(1, "medium", Type::Text),
        field(2, "sizeLimit", Type::Quantity),
        field(3, "mode", Type::Int),
    ],
);

pub(super) static ENV_FROM_SOURCE: Descriptor = message(
    "EnvFromSource",
    &[
        omitted(1, "prefix", Type::Text),
        field(2, "configMapRef", Type::Message(&CONFIG_MAP_ENV_SOURCE)),
        field(3, "secretRef", Type::Message(&SECRET_ENV_SOURCE)),
    ],
);

pub(super) static ENV_VAR: Descriptor = message(
    "EnvVar",
    &[
        field(1, "name", Type::Text),
        omitted(2, "value", Type::Text),
        field(3, "valueFrom", Type::Message(&ENV_VAR_SOURCE)),
    ],
);

pub(super) static ENV_VAR_SOURCE: Descriptor = message(
    "EnvVarSource",
    &[
        field(1, "fieldRef", Type::Message(&OBJECT_FIELD_SELECTOR)),
        field(2, "resourceFieldRef", Type::Message(&RESOURCE_FIELD_SELECTOR)),
        field(3, "configMapKeyRef", Type::Message(&CONFIG_MAP_KEY_SELECTOR)),
        field(4, "secretKeyRef", Type::Message(&SECRET_KEY_SELECTOR)),
        field(5, "fileKeyRef", Type::Message(&FILE_KEY_SELECTOR)),
    ],
);

pub(super) static EPHEMERAL_CONTAINER: Descriptor = message(
    "EphemeralContainer",
    &[
        field(1, "", Type::Inline(&EPHEMERAL_CONTAINER_COMMON)),
        omitted(2, "targetContainerName", Type::Text),
    ],
);

pub(super) static EPHEMERAL_CONTAINER_COMMON: Descriptor = message(
    "EphemeralContainerCommon",
    &[
        field(1, "name", Type::Text),
        omitted(2, "image", Type::Text),
        list(3, "command", Type::Text),
        list(4, "args", Type::Text),
        omitted(5, "workingDir", Type::Text),
        list(6, "ports", Type::Message(&CONTAINER_PORT)),
        list(7, "env", Type::Message(&ENV_VAR)),
        field(8, "resources", Type::Message(&RESOURCE_REQUIREMENTS)),
        list(9, "volumeMounts", Type::Message(&VOLUME_MOUNT)),
        field(10, "livenessProbe", Type::Message(&PROBE)),
        field(11, "readinessProbe", Type::Message(&PROBE)),
        field(12, "lifecycle", Type::Message(&LIFECYCLE)),
        omitted(13, "terminationMessagePath", Type::Text),
        omitted(14, "imagePullPolicy", Type::Text),
        field(15, "securityContext", Type::Message(&SECURITY_CONTEXT)),
        omitted(16, "stdin", Type::Bool),
        omitted(17, "stdinOnce", Type::Bool),
        omitted(18, "tty", Type::Bool),
        list(19, "envFrom", Type::Message(&ENV_FROM_SOURCE)),
        omitted(20, "terminationMessagePolicy", Type::Text),
        list(21, "volumeDevices", Type::Message(&VOLUME_DEVICE)),
        field(22, "startupProbe", Type::Message(&PROBE)),
        list(23, "resizePolicy", Type::Message(&CONTAINER_RESIZE_POLICY)),
        field(24, "restartPolicy", Type::Text),
        list(25, "restartPolicyRules", Type::Message(&CONTAINER_RESTART_RULE)),
    ],
);

pub(super) static EPHEMERAL_VOLUME_SOURCE: Descriptor = message(
    "EphemeralVolumeSource",
    &[field(
        1,
        "volumeClaimTemplate",
        Type::Message(&PERSISTENT_VOLUME_CLAIM_TEMPLATE),
    )],
);

pub(super) static EVICTION_RESPONDER: Descriptor = message(
    "EvictionResponder",
    &[field(1, "name", Type::Text), field(2, "priority", Type::Int)],
);

pub(super) static EXEC_ACTION: Descriptor = message("ExecAction", &[list(1, "command", Type::Text)]);

pub(super) static FC_VOLUME_SOURCE: Descriptor = message(
    "FCVolumeSource",
    &[
        list(1, "targetWWNs", Type::Text),
        field(2, "lun", Type::Int),
        omitted(3, "fsType", Type::Text),
        omitted(4, "readOnly", Type::Bool),
        list(5, "wwids", Type::Text),
    ],
);

pub(super) static FILE_KEY_SELECTOR: Descriptor = message(
    "FileKeySelector",
    &[
        field(1, "volumeName", Type::Text),
        field(2, "path", Type::Text),
        field(3, "key", Type::Text),
        field(4, "optional", Type::Bool),
    ],
);

pub(super) static FLEX_VOLUME_SOURCE: Descriptor = message(
    "FlexVolumeSource",
    &[
        field(1, "driver", Type::Text),
        omitted(2, "fsType", Type::Text),
        field(3, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        omitted(4, "readOnly", Type::Bool),
        field(5, "options", Type::Map(&Type::Text)),
    ],
);

pub(super) static FLOCKER_VOLUME_SOURCE: Descriptor = message(
    "FlockerVolumeSource",
    &[
        omitted(1, "datasetName", Type::Text),
        omitted(2, "datasetUUID", Type::Text),
    ],
);

pub(super) static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Descriptor = message(
    "GCEPersistentDiskVolumeSource",
    &[
        field(1, "pdName", Type::Text),
        omitted(2, "fsType", Type::Text),
        omitted(3, "partition", Type::Int),
        omitted(4, "readOnly", Type::Bool),
    ],
);

pub(super) static GIT_REPO_VOLUME_SOURCE: Descriptor = message(
    "GitRepoVolumeSource",
    &[
        field(1, "repository", Type::Text),
        omitted(2, "revision", Type::Text),
        omitted(3, "directory", Type::Text),
    ],
);

pub(super) static GLUSTERFS_VOLUME_SOURCE: Descriptor = message(
    "GlusterfsVolumeSource",
    &[
        field(1, "endpoints", Type::Text),
        field(2, "path", Type::Text),
        omitted(3, "readOnly", Type::Bool),
    ],
);

pub(super) static GRPC_ACTION: Descriptor = message(
    "GRPCAction",
    &[
        field(1, "port", Type::Int),
        field(2, "service", Type::Text),
        field(3, "mode", Type::Text),
    ],
);

pub(super) static HOST_ALIAS: Descriptor = message(
    "HostAlias",
    &[field(1, "ip", Type::Text), list(2, "hostnames", Type::Text)],
);

pub(super) static HOST_PATH_VOLUME_SOURCE: Descriptor = message(
    "HostPathVolumeSource",
    &[field(1, "path", Type::Text), field(2, "type", Type::Text)],
);

pub(super) static HTTP_GET_ACTION: Descriptor = message(
    "HTTPGetAction",
    &[
        omitted(1, "path", Type::Text),
        field(2, "port", Type::IntOrString),
        omitted(3, "host", Type::Text),
        omitted(4, "scheme", Type::Text),
        list(5, "httpHeaders", Type::Message(&HTTP_HEADER)),
        field(6, "protocol", Type::Text),
    ],
);

pub(super) static HTTP_HEADER: Descriptor = message(
    "HTTPHeader",
    &[field(1, "name", Type::Text), field(2, "value", Type::Text)],
);

pub(super) static HTTP_INGRESS_PATH: Descriptor = message(
    "HTTPIngressPath",
    &[
        omitted(1, "path", Type::Text),
        field(2, "backend", Type::Message(&INGRESS_BACKEND)),
        field(3, "pathType", Type::Text),
    ],
);

pub(super) static HTTP_INGRESS_RULE_VALUE: Descriptor = message(
    "HTTPIngressRuleValue",
    &[list(1, "paths", Type::Message(&HTTP_INGRESS_PATH))],
);

pub(super) static IMAGE_VOLUME_SOURCE: Descriptor = message(
    "ImageVolumeSource",
    &[
        omitted(1, "reference", Type::Text),
        omitted(2, "pullPolicy", Type::Text),
    ],
);

pub(super) static INGRESS: Descriptor = message(
    "Ingress",
    &[
        field(1, "metadata", Type::Message(&OBJECT_META)),
        field(2, "spec", Type::Message(&INGRESS_SPEC)),
        field(3, "status", Type::Message(&INGRESS_STATUS)),
    ],
);

pub(super) static INGRESS_BACKEND: Descriptor = message(
    "IngressBackend",
    &[
        field(3, "resource", Type::Message(&TYPED_LOCAL_OBJECT_REFERENCE)),
        field(4, "service", Type::Message(&INGRESS_SERVICE_BACKEND)),
    ],
);

pub(super) static INGRESS_LOAD_BALANCER_INGRESS: Descriptor = message(
    "IngressLoadBalancerIngress",
    &[
        omitted(1, "ip", Type::Text),
        omitted(2, "hostname", Type::Text),
        list(4, "ports", Type::Message(&INGRESS_PORT_STATUS)),
    ],
);

pub(super) static INGRESS_LOAD_BALANCER_STATUS: Descriptor = message(
    "IngressLoadBalancerStatus",
    &[list(1, "ingress", Type::Message(&INGRESS_LOAD_BALANCER_INGRESS))],
);

pub(super) static INGRESS_PORT_STATUS: Descriptor = message(
    "IngressPortStatus",
    &[
        field(1, "port", Type::Int),
        field(2, "protocol", Type::Text),
        field(3, "error", Type::Text),
    ],
);

pub(super) static INGRESS_RULE: Descriptor = message(
    "IngressRule",
    &[
        omitted(1, "host", Type::Text),
        field(2, "", Type::Inline(&INGRESS_RULE_VALUE)),
    ],
);

pub(super) static INGRESS_RULE_VALUE: Descriptor = message(
    "IngressRuleValue",
    &[field(1, "http", Type::Message(&HTTP_INGRESS_RULE_VALUE))],
);

pub(super) static INGRESS_SERVICE_BACKEND: Descriptor = message(
    "IngressServiceBackend",
    &[
        field(1, "name", Type::Text),
        field(2, "port", Type::Message(&SERVICE_BACKEND_PORT)),
    ],
);

pub(super) static INGRESS_SPEC: Descriptor = message(
    "IngressSpec",
    &[
        field(1, "defaultBackend", Type::Message(&INGRESS_BACKEND)),
        list(2, "tls", Type::Message(&INGRESS_TLS)),
        list(3, "rules", Type::Message(&INGRESS_RULE)),
        field(4, "ingressClassName", Type::Text),
    ],
);

pub(super) static INGRESS_STATUS: Descriptor = message(
    "IngressStatus",
    &[field(1, "loadBalancer", Type::Message(&INGRESS_LOAD_BALANCER_STATUS))],
);

pub(super) static INGRESS_TLS: Descriptor = message(
    "IngressTLS",
    &[list(1, "hosts", Type::Text), omitted(2, "secretName", Type::Text)],
);

pub(super) static ISCSI_VOLUME_SOURCE: Descriptor = message(
    "ISCSIVolumeSource",
    &[
        field(1, "targetPortal", Type::Text),
        field(2, "iqn", Type::Text),
        field(3, "lun", Type::Int),
        omitted(4, "iscsiInterface", Type::Text),
        omitted(5, "fsType", Type::Text),
        omitted(6, "readOnly", Type::Bool),
        list(7, "portals", Type::Text),
        omitted(8, "chapAuthDiscovery", Type::Bool),
        field(10, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        omitted(11, "chapAuthSession", Type::Bool),
        field(12, "initiatorName", Type::Text),
    ],
);

pub(super) static KEY_TO_PATH: Descriptor = message(
    "KeyToPath",
    &[
        field(1, "key", Type::Text),
        field(2, "path", Type::Text),
        field(3, "mode", Type::Int),
        field(4, "user", Type::Int),
    ],
);

pub(super) static LABEL_SELECTOR: Descriptor = message(
    "LabelSelector",
    &[
        field(1, "matchLabels", Type::Map(&Type::Text)),
        list(2, "matchExpressions", Type::Message(&LABEL_SELECTOR_REQUIREMENT)),
    ],
);

pub(super) static LABEL_SELECTOR_REQUIREMENT: Descriptor = message(
    "LabelSelectorRequirement",
    &[
        field(1, "key", Type::Text),
        field(2, "operator", Type::Text),
        list(3, "values", Type::Text),
    ],
);

pub(super) static LIFECYCLE: Descriptor = message(
    "Lifecycle",
    &[
        field(1, "postStart", Type::Message(&LIFECYCLE_HANDLER)),
        field(2, "preStop", Type::Message(&LIFECYCLE_HANDLER)),
        field(3, "stopSignal", Type::Text),
    ],
);

pub(super) static LIFECYCLE_HANDLER: Descriptor = message(
    "LifecycleHandler",
    &[
        field(1, "exec", Type::Message(&EXEC_ACTION)),
        field(2, "httpGet", Type::Message(&HTTP_GET_ACTION)),
        field(3, "tcpSocket", Type::Message(&TCP_SOCKET_ACTION)),
        field(4, "sleep", Type::Message(&SLEEP_ACTION)),
    ],
);

pub(super) static LIST_META: Descriptor = message(
    "ListMeta",
    &[
        omitted(1, "selfLink", Type::Text),
        omitted(2, "resourceVersion", Type::Text),
        omitted(3, "continue", Type::Text),
        field(4, "remainingItemCount", Type::Int),
        field(5, "shardInfo", Type::Message(&SHARD_INFO)),
    ],
);

pub(super) static LOAD_BALANCER_INGRESS: Descriptor = message(
    "LoadBalancerIngress",
    &[
        omitted(1, "ip", Type::Text),
        omitted(2, "hostname", Type::Text),
        field(3, "ipMode", Type::Text),
        list(4, "ports", Type::Message(&PORT_STATUS)),
    ],
);

pub(super) static LOAD_BALANCER_STATUS: Descriptor = message(
    "LoadBalancerStatus",
    &[list(1, "ingress", Type::Message(&LOAD_BALANCER_INGRESS))],
);

pub(super) static LOCAL_OBJECT_REFERENCE: Descriptor =
    message("LocalObjectReference", &[omitted(1, "name", Type::Text)]);

pub(super) static MANAGED_FIELDS_ENTRY: Descriptor = message(
    "ManagedFieldsEntry",
    &[
        omitted(1, "manager", Type::Text),
        omitted(2, "operation", Type::Text),
        omitted(3, "apiVersion", Type::Text),
        field(4, "time", Type::Time),
        omitted(6, "fieldsType", Type::Text),
        field(7, "fieldsV1", Type::Skipped),
        omitted(8, "subresource", Type::Text),
    ],
);

pub(super) static NFS_VOLUME_SOURCE: Descriptor = message(
    "NFSVolumeSource",
    &[
        field(1, "server", Type::Text),
        field(2, "path", Type::Text),
        omitted(3, "readOnly", Type::Bool),
    ],
);

pub(super) static NODE_AFFINITY: Descriptor = message(
    "NodeAffinity",
    &[
        field(
            1,
            "requiredDuringSchedulingIgnoredDuringExecution",
            Type::Message(&NODE_SELECTOR),
        ),
        list(
            2,
            "preferredDuringSchedulingIgnoredDuringExecution",
            Type::Message(&PREFERRED_SCHEDULING_TERM),
        ),
    ],
);

pub(super) static NODE_SELECTOR: Descriptor = message(
    "NodeSelector",
    &[list(1, "nodeSelectorTerms", Type::Message(&NODE_SELECTOR_TERM))],
);

pub(super) static NODE_SELECTOR_REQUIREMENT: Descriptor = message(
    "NodeSelectorRequirement",
    &[
        field(1, "key", Type::Text),
        field(2, "operator", Type::Text),
        list(3, "values", Type::Text),
    ],
);

pub(super) static NODE_SELECTOR_TERM: Descriptor = message(
    "NodeSelectorTerm",
    &[
        list(1, "matchExpressions", Type::Message(&NODE_SELECTOR_REQUIREMENT)),
        list(2, "matchFields", Type::Message(&NODE_SELECTOR_REQUIREMENT)),
    ],
);

pub(super) static OBJECT_FIELD_SELECTOR: Descriptor = message(
    "ObjectFieldSelector",
    &[omitted(1, "apiVersion", Type::Text), field(2, "fieldPath", Type::Text)],
);

pub(super) static OBJECT_META: Descriptor = message(
    "ObjectMeta",
    &[
        omitted(1, "name", Type::Text),
        omitted(2, "generateName", Type::Text),
        omitted(3, "namespace", Type::Text),
        omitted(4, "selfLink", Type::Text),
        omitted(5, "uid", Type::Text),
        omitted(6, "resourceVersion", Type::Text),
        omitted(7, "generation", Type::Int),
        field(8, "creationTimestamp", Type::Time),
        field(9, "deletionTimestamp", Type::Time),
        field(10, "deletionGracePeriodSeconds", Type::Int),
        field(11, "labels", Type::Map(&Type::Text)),
        field(12, "annotations", Type::Map(&Type::Text)),
        list(13, "ownerReferences", Type::Message(&OWNER_REFERENCE)),
        list(14, "finalizers", Type::Text),
        list(17, "managedFields", Type::Message(&MANAGED_FIELDS_ENTRY)),
    ],
);

pub(super) static OBJECT_REFERENCE: Descriptor = message(
    "ObjectReference",
    &[
        omitted(1, "kind", Type::Text),
        omitted(2, "namespace", Type::Text),
        omitted(3, "name", Type::Text),
        omitted(4, "uid", Type::Text),
        omitted(5, "apiVersion", Type::Text),
        omitted(6, "resourceVersion", Type::Text),
        omitted(7, "fieldPath", Type::Text),
    ],
);

pub(super) static OWNER_REFERENCE: Descriptor = message(
    "OwnerReference",
    &[
        field(1, "kind", Type::Text),
        field(3, "name", Type::Text),
        field(4, "uid", Type::Text),
        field(5, "apiVersion", Type::Text),
        field(6, "controller", Type::Bool),
        field(7, "blockOwnerDeletion", Type::Bool),
    ],
);

pub(super) static PARTIAL_OBJECT_METADATA: Descriptor = message(
    "PartialObjectMetadata",
    &[field(1, "metadata", Type::Message(&OBJECT_META))],
);

pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: Descriptor = message(
    "PersistentVolumeClaimSpec",
    &[
        list(1, "accessModes", Type::Text),
        field(2, "resources", Type::Message(&VOLUME_RESOURCE_REQUIREMENTS)),
        omitted(3, "volumeName", Type::Text),
        field(4, "selector", Type::Message(&LABEL_SELECTOR)),
        field(5, "storageClassName", Type::Text),
        field(6, "volumeMode", Type::Text),
        field(7, "dataSource", Type::Message(&TYPED_LOCAL_OBJECT_REFERENCE)),
        field(8, "dataSourceRef", Type::Message(&TYPED_OBJECT_REFERENCE)),
        field(9, "volumeAttributesClassName", Type::Text),
    ],
);

pub(super) static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Descriptor = message(
    "PersistentVolumeClaimTemplate",
    &[
        field(1, "metadata", Type::Message(&OBJECT_META)),
        field(2, "spec", Type::Message(&PERSISTENT_VOLUME_CLAIM_SPEC)),
    ],
);

pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Descriptor = message(
    "PersistentVolumeClaimVolumeSource",
    &[field(1, "claimName", Type::Text), omitted(2, "readOnly", Type::Bool)],
);

pub(super) static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Descriptor = message(
    "PhotonPersistentDiskVolumeSource",
    &[field(1, "pdID", Type::Text), omitted(2, "fsType", Type::Text)],
);

pub(super) static POD_AFFINITY: Descriptor = message(
    "PodAffinity",
    &[
        list(
            1,
            "requiredDuringSchedulingIgnoredDuringExecution",
            Type::Message(&POD_AFFINITY_TERM),
        ),
        list(
            2,
            "preferredDuringSchedulingIgnoredDuringExecution",
            Type::Message(&WEIGHTED_POD_AFFINITY_TERM),
        ),
    ],
);

pub(super) static POD_AFFINITY_TERM: Descriptor = message(
    "PodAffinityTerm",
    &[
        field(1, "labelSelector", Type::Message(&LABEL_SELECTOR)),
        list(2, "namespaces", Type::Text),
        field(3, "topologyKey", Type::Text),
        field(4, "namespaceSelector", Type::Message(&LABEL_SELECTOR)),
        list(5, "matchLabelKeys", Type::Text),
        list(6, "mismatchLabelKeys", Type::Text),
    ],
);

pub(super) static POD_ANTI_AFFINITY: Descriptor = message(
    "PodAntiAffinity",
    &[
        list(
            1,
            "requiredDuringSchedulingIgnoredDuringExecution",
            Type::Message(&POD_AFFINITY_TERM),
        ),
        list(
            2,
            "preferredDuringSchedulingIgnoredDuringExecution",
            Type::Message(&WEIGHTED_POD_AFFINITY_TERM),
        ),
    ],
);

pub(super) static POD_CERTIFICATE_PROJECTION: Descriptor = message(
    "PodCertificateProjection",
    &[
        omitted(1, "signerName", Type::Text),
        omitted(2, "keyType", Type::Text),
        field(3, "maxExpirationSeconds", Type::Int),
        omitted(4, "credentialBundlePath", Type::Text),
        omitted(5, "keyPath", Type::Text),
        omitted(6, "certificateChainPath", Type::Text),
        field(7, "userAnnotations", Type::Map(&Type::Text)),
        field(8, "user", Type::Int),
    ],
);

pub(super) static POD_DNS_CONFIG: Descriptor = message(
    "PodDNSConfig",
    &[
        list(1, "nameservers", Type::Text),
        list(2, "searches", Type::Text),
        list(3, "options", Type::Message(&POD_DNS_CONFIG_OPTION)),
    ],
);

pub(super) static POD_DNS_CONFIG_OPTION: Descriptor = message(
    "PodDNSConfigOption",
    &[omitted(1, "name", Type::Text), field(2, "value", Type::Text)],
);

pub(super) static POD_OS: Descriptor = message("PodOS", &[field(1, "name", Type::Text)]);

pub(super) static POD_READINESS_GATE: Descriptor =
    message("PodReadinessGate", &[field(1, "conditionType", Type::Text)]);

pub(super) static POD_RESOURCE_CLAIM: Descriptor = message(
    "PodResourceClaim",
    &[
        field(1, "name", Type::Text),
        field(3, "resourceClaimName", Type::Text),
        field(4, "resourceClaimTemplateName", Type::Text),
    ],
);

pub(super) static POD_SCHEDULING_GATE: Descriptor = message("PodSchedulingGate", &[field(1, "name", Type::Text)]);

pub(super) static POD_SCHEDULING_GROUP: Descriptor =
    message("PodSchedulingGroup", &[field(1, "podGroupName", Type::Text)]);

pub(super) static POD_SECURITY_CONTEXT: Descriptor = message(
    "PodSecurityContext",
    &[
        field(1, "seLinuxOptions", Type::Message(&SE_LINUX_OPTIONS)),
        field(2, "runAsUser", Type::Int),
        field(3, "runAsNonRoot", Type::Bool),
        list(4, "supplementalGroups", Type::Int),
        field(5, "fsGroup", Type::Int),
        field(6, "runAsGroup", Type::Int),
        list(7, "sysctls", Type::Message(&SYSCTL)),
        field(8, "windowsOptions", Type::Message(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        field(9, "fsGroupChangePolicy", Type::Text),
        field(10, "seccompProfile", Type::Message(&SECCOMP_PROFILE)),
        field(11, "appArmorProfile", Type::Message(&APP_ARMOR_PROFILE)),
        field(12, "supplementalGroupsPolicy", Type::Text),
        field(13, "seLinuxChangePolicy", Type::Text),
    ],
);

pub(super) static POD_SPEC: Descriptor = message(
    "PodSpec",
    &[
        list(1, "volumes", Type::Message(&VOLUME)),
        list(2, "containers", Type::Message(&CONTAINER)),
        omitted(3, "restartPolicy", Type::Text),
        field(4, "terminationGracePeriodSeconds", Type::Int),
        field(5, "activeDeadlineSeconds", Type::Int),
        omitted(6, "dnsPolicy", Type::Text),
        field(7, "nodeSelector", Type::Map(&Type::Text)),
        omitted(8, "serviceAccountName", Type::Text),
        omitted(9, "serviceAccount", Type::Text),
        omitted(10, "nodeName", Type::Text),
        omitted(11, "hostNetwork", Type::Bool),
        omitted(12, "hostPID", Type::Bool),
        omitted(13, "hostIPC", Type::Bool),
        field(14, "securityContext", Type::Message(&POD_SECURITY_CONTEXT)),
        list(15, "imagePullSecrets", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        omitted(16, "hostname", Type::Text),
        omitted(17, "subdomain", Type::Text),
        field(18, "affinity", Type::Message(&AFFINITY)),
        omitted(19, "schedulerName", Type::Text),
        list(20, "initContainers", Type::Message(&CONTAINER)),
        field(21, "automountServiceAccountToken", Type::Bool),
        list(22, "tolerations", Type::Message(&TOLERATION)),
        list(23, "hostAliases", Type::Message(&HOST_ALIAS)),
        omitted(24, "priorityClassName", Type::Text),
        field(25, "priority", Type::Int),
        field(26, "dnsConfig", Type::Message(&POD_DNS_CONFIG)),
        field(27, "shareProcessNamespace", Type::Bool),
        list(28, "readinessGates", Type::Message(&POD_READINESS_GATE)),
        field(29, "runtimeClassName", Type::Text),
        field(30, "enableServiceLinks", Type::Bool),
        field(31, "preemptionPolicy", Type::Text),
        field(32, "overhead", Type::Map(&Type::Quantity)),
        list(
            33,
            "topologySpreadConstraints",
            Type::Message(&TOPOLOGY_SPREAD_CONSTRAINT),
        ),
        list(34, "ephemeralContainers", Type::Message(&EPHEMERAL_CONTAINER)),
        field(35, "setHostnameAsFQDN", Type::Bool),
        field(36, "os", Type::Message(&POD_OS)),
        field(37, "hostUsers", Type::Bool),
        list(38, "schedulingGates", Type::Message(&POD_SCHEDULING_GATE)),
        list(39, "resourceClaims", Type::Message(&POD_RESOURCE_CLAIM)),
        field(40, "resources", Type::Message(&RESOURCE_REQUIREMENTS)),
        field(41, "hostnameOverride", Type::Text),
        field(43, "schedulingGroup", Type::Message(&POD_SCHEDULING_GROUP)),
        list(44, "evictionResponders", Type::Message(&EVICTION_RESPONDER)),
    ],
);

pub(super) static POD_TEMPLATE_SPEC: Descriptor = message(
    "PodTemplateSpec",
    &[
        field(1, "metadata", Type::Message(&OBJECT_META)),
        field(2, "spec", Type::Message(&POD_SPEC)),
    ],
);

pub(super) static PORTWORX_VOLUME_SOURCE: Descriptor = message(
    "PortworxVolumeSource",
    &[
        field(1, "volumeID", Type::Text),
        omitted(2, "fsType", Type::Text),
        omitted(3, "readOnly", Type::Bool),
    ],
);

pub(super) static PORT_STATUS: Descriptor = message(
    "PortStatus",
    &[
        field(1, "port", Type::Int),
        field(2, "protocol", Type::Text),
        field(3, "error", Type::Text),
    ],
);

pub(super) static PREFERRED_SCHEDULING_TERM: Descriptor = message(
    "PreferredSchedulingTerm",
    &[
        field(1, "weight", Type::Int),
        field(2, "preference", Type::Message(&NODE_SELECTOR_TERM)),
    ],
);

pub(super) static PROBE: Descriptor = message(
    "Probe",
    &[
        field(1, "", Type::Inline(&PROBE_HANDLER)),
        omitted(2, "initialDelaySeconds", Type::Int),
        omitted(3, "timeoutSeconds", Type::Int),
        omitted(4, "periodSeconds", Type::Int),
        omitted(5, "successThreshold", Type::Int),
        omitted(6, "failureThreshold", Type::Int),
        field(7, "terminationGracePeriodSeconds", Type::Int),
    ],
);

pub(super) static PROBE_HANDLER: Descriptor = message(
    "ProbeHandler",
    &[
        field(1, "exec", Type::Message(&EXEC_ACTION)),
        field(2, "httpGet", Type::Message(&HTTP_GET_ACTION)),
        field(3, "tcpSocket", Type::Message(&TCP_SOCKET_ACTION)),
        field(4, "grpc", Type::Message(&GRPC_ACTION)),
    ],
);

pub(super) static PROJECTED_VOLUME_SOURCE: Descriptor = message(
    "ProjectedVolumeSource",
    &[
        list(1, "sources", Type::Message(&VOLUME_PROJECTION)),
        field(2, "defaultMode", Type::Int),
        field(3, "defaultUser", Type::Int),
    ],
);

pub(super) static QUOBYTE_VOLUME_SOURCE: Descriptor = message(
    "QuobyteVolumeSource",
    &[
        field(1, "registry", Type::Text),
        field(2, "volume", Type::Text),
        omitted(3, "readOnly", Type::Bool),
        omitted(4, "user", Type::Text),
        omitted(5, "group", Type::Text),
        omitted(6, "tenant", Type::Text),
    ],
);

pub(super) static RBD_VOLUME_SOURCE: Descriptor = message(
    "RBDVolumeSource",
    &[
        list(1, "monitors", Type::Text),
        field(2, "image", Type::Text),
        omitted(3, "fsType", Type::Text),
        omitted(4, "pool", Type::Text),
        omitted(5, "user", Type::Text),
        omitted(6, "keyring", Type::Text),
        field(7, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        omitted(8, "readOnly", Type::Bool),
    ],
);

pub(super) static RESOURCE_CLAIM: Descriptor = message(
    "ResourceClaim",
    &[field(1, "name", Type::Text), omitted(2, "request", Type::Text)],
);

pub(super) static RESOURCE_FIELD_SELECTOR: Descriptor = message(
    "ResourceFieldSelector",
    &[
        omitted(1, "containerName", Type::Text),
        field(2, "resource", Type::Text),
        field(3, "divisor", Type::Quantity),
    ],
);

pub(super) static RESOURCE_REQUIREMENTS: Descriptor = message(
    "ResourceRequirements",
    &[
        field(1, "limits", Type::Map(&Type::Quantity)),
        field(2, "requests", Type::Map(&Type::Quantity)),
        list(3, "claims", Type::Message(&RESOURCE_CLAIM)),
    ],
);

pub(super) static ROLLING_UPDATE_DEPLOYMENT: Descriptor = message(
    "RollingUpdateDeployment",
    &[
        field(1, "maxUnavailable", Type::IntOrString),
        field(2, "maxSurge", Type::IntOrString),
    ],
);

pub(super) static SCALE_IO_VOLUME_SOURCE: Descriptor = message(
    "ScaleIOVolumeSource",
    &[
        field(1, "gateway", Type::Text),
        field(2, "system", Type::Text),
        field(3, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        omitted(4, "sslEnabled", Type::Bool),
        omitted(5, "protectionDomain", Type::Text),
        omitted(6, "storagePool", Type::Text),
        omitted(7, "storageMode", Type::Text),
        omitted(8, "volumeName", Type::Text),
        omitted(9, "fsType", Type::Text),
        omitted(10, "readOnly", Type::Bool),
    ],
);

pub(super) static SECCOMP_PROFILE: Descriptor = message(
    "SeccompProfile",
    &[field(1, "type", Type::Text), field(2, "localhostProfile", Type::Text)],
);

pub(super) static SECRET_ENV_SOURCE: Descriptor = message(
    "SecretEnvSource",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        field(2, "optional", Type::Bool),
    ],
);

pub(super) static SECRET_KEY_SELECTOR: Descriptor = message(
    "SecretKeySelector",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        field(2, "key", Type::Text),
        field(3, "optional", Type::Bool),
    ],
);

pub(super) static SECRET_PROJECTION: Descriptor = message(
    "SecretProjection",
    &[
        field(1, "", Type::Inline(&LOCAL_OBJECT_REFERENCE)),
        list(2, "items", Type::Message(&KEY_TO_PATH)),
        field(4, "optional", Type::Bool),
    ],
);

pub(super) static SECRET_VOLUME_SOURCE: Descriptor = message(
    "SecretVolumeSource",
    &[
        omitted(1, "secretName", Type::Text),
        list(2, "items", Type::Message(&KEY_TO_PATH)),
        field(3, "defaultMode", Type::Int),
        field(4, "optional", Type::Bool),
        field(5, "defaultUser", Type::Int),
    ],
);

pub(super) static SECURITY_CONTEXT: Descriptor = message(
    "SecurityContext",
    &[
        field(1, "capabilities", Type::Message(&CAPABILITIES)),
        field(2, "privileged", Type::Bool),
        field(3, "seLinuxOptions", Type::Message(&SE_LINUX_OPTIONS)),
        field(4, "runAsUser", Type::Int),
        field(5, "runAsNonRoot", Type::Bool),
        field(6, "readOnlyRootFilesystem", Type::Bool),
        field(7, "allowPrivilegeEscalation", Type::Bool),
        field(8, "runAsGroup", Type::Int),
        field(9, "procMount", Type::Text),
        field(10, "windowsOptions", Type::Message(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
        field(11, "seccompProfile", Type::Message(&SECCOMP_PROFILE)),
        field(12, "appArmorProfile", Type::Message(&APP_ARMOR_PROFILE)),
    ],
);

pub(super) static SERVICE: Descriptor = message(
    "Service",
    &[
        field(1, "metadata", Type::Message(&OBJECT_META)),
        field(2, "spec", Type::Message(&SERVICE_SPEC)),
        field(3, "status", Type::Message(&SERVICE_STATUS)),
    ],
);

pub(super) static SERVICE_ACCOUNT: Descriptor = message(
    "ServiceAccount",
    &[
        field(1, "metadata", Type::Message(&OBJECT_META)),
        list(2, "secrets", Type::Message(&OBJECT_REFERENCE)),
        list(3, "imagePullSecrets", Type::Message(&LOCAL_OBJECT_REFERENCE)),
        field(4, "automountServiceAccountToken", Type::Bool),
    ],
);

pub(super) static SERVICE_ACCOUNT_TOKEN_PROJECTION: Descriptor = message(
    "ServiceAccountTokenProjection",
    &[
        omitted(1, "audience", Type::Text),
        field(2, "expirationSeconds", Type::Int),
        field(3, "path", Type::Text),
        field(4, "user", Type::Int),
    ],
);

pub(super) static SERVICE_BACKEND_PORT: Descriptor = message(
    "ServiceBackendPort",
    &[omitted(1, "name", Type::Text), omitted(2, "number", Type::Int)],
);

pub(super) static SERVICE_PORT: Descriptor = message(
    "ServicePort",
    &[
        omitted(1, "name", Type::Text),
        omitted(2, "protocol", Type::Text),
        field(3, "port", Type::Int),
        field(4, "targetPort", Type::IntOrString),
        omitted(5, "nodePort", Type::Int),
        field(6, "appProtocol", Type::Text),
    ],
);

pub(super) static SERVICE_SPEC: Descriptor = message(
    "ServiceSpec",
    &[
        list(1, "ports", Type::Message(&SERVICE_PORT)),
        field(2, "selector", Type::Map(&Type::Text)),
        omitted(3, "clusterIP", Type::Text),
        omitted(4, "type", Type::Text),
        list(5, "externalIPs", Type::Text),
        omitted(7, "sessionAffinity", Type::Text),
        omitted(8, "loadBalancerIP", Type::Text),
        list(9, "loadBalancerSourceRanges", Type::Text),
        omitted(10, "externalName", Type::Text),
        omitted(11, "externalTrafficPolicy", Type::Text),
        omitted(12, "healthCheckNodePort", Type::Int),
        omitted(13, "publishNotReadyAddresses", Type::Bool),
        field(14, "sessionAffinityConfig", Type::Message(&SESSION_AFFINITY_CONFIG)),
        field(17, "ipFamilyPolicy", Type::Text),
        list(18, "clusterIPs", Type::Text),
        list(19, "ipFamilies", Type::Text),
        field(20, "allocateLoadBalancerNodePorts", Type::Bool),
        field(21, "loadBalancerClass", Type::Text),
        field(22, "internalTrafficPolicy", Type::Text),
        field(23, "trafficDistribution", Type::Text),
    ],
);

pub(super) static SERVICE_STATUS: Descriptor = message(
    "ServiceStatus",
    &[
        field(1, "loadBalancer", Type::Message(&LOAD_BALANCER_STATUS)),
        list(2, "conditions", Type::Message(&CONDITION)),
    ],
);

pub(super) static SESSION_AFFINITY_CONFIG: Descriptor = message(
    "SessionAffinityConfig",
    &[field(1, "clientIP", Type::Message(&CLIENT_IP_CONFIG))],
);

pub(super) static SE_LINUX_OPTIONS: Descriptor = message(
    "SELinuxOptions",
    &[
        omitted(1, "user", Type::Text),
        omitted(2, "role", Type::Text),
        omitted(3, "type", Type::Text),
        omitted(4, "level", Type::Text),
    ],
);

pub(super) static SHARD_INFO: Descriptor = message("ShardInfo", &[field(1, "selector", Type::Text)]);

pub(super) static SLEEP_ACTION: Descriptor = message("SleepAction", &[field(1, "seconds", Type::Int)]);

pub(super) static STATUS: Descriptor = message(
    "Status",
    &[
        field(1, "metadata", Type::Message(&LIST_META)),
        omitted(2, "status", Type::Text),
        omitted(3, "message", Type::Text),
        omitted(4, "reason", Type::Text),
        field(5, "details", Type::Message(&STATUS_DETAILS)),
        omitted(6, "code", Type::Int),
    ],
);

pub(super) static STATUS_CAUSE: Descriptor = message(
    "StatusCause",
    &[
        omitted(1, "reason", Type::Text),
        omitted(2, "message", Type::Text),
        omitted(3, "field", Type::Text),
    ],
);

pub(super) static STATUS_DETAILS: Descriptor = message(
    "StatusDetails",
    &[
        omitted(1, "name", Type::Text),
        omitted(2, "group", Type::Text),
        omitted(3, "kind", Type::Text),
        list(4, "causes", Type::Message(&STATUS_CAUSE)),
        omitted(5, "retryAfterSeconds", Type::Int),
        omitted(6, "uid", Type::Text),
    ],
);

pub(super) static STORAGE_OS_VOLUME_SOURCE: Descriptor = message(
    "StorageOSVolumeSource",
    &[
        omitted(1, "volumeName", Type::Text),
        omitted(2, "volumeNamespace", Type::Text),
        omitted(3, "fsType", Type::Text),
        omitted(4, "readOnly", Type::Bool),
        field(5, "secretRef", Type::Message(&LOCAL_OBJECT_REFERENCE)),
    ],
);

pub(super) static SYSCTL: Descriptor =
    message("Sysctl", &[field(1, "name", Type::Text), field(2, "value", Type::Text)]);

pub(super) static TCP_SOCKET_ACTION: Descriptor = message(
    "TCPSocketAction",
    &[field(1, "port", Type::IntOrString), omitted(2, "host", Type::Text)],
);

pub(super) static TOLERATION: Descriptor = message(
    "Toleration",
    &[
        omitted(1, "key", Type::Text),
        omitted(2, "operator", Type::Text),
        omitted(3, "value", Type::Text),
        omitted(4, "effect", Type::Text),
        field(5, "tolerationSeconds", Type::Int),
    ],
);

pub(super) static TOPOLOGY_SPREAD_CONSTRAINT: Descriptor = message(
    "TopologySpreadConstraint",
    &[
        field(1, "maxSkew", Type::Int),
        field(2, "topologyKey", Type::Text),
        field(3, "whenUnsatisfiable", Type::Text),
        field(4, "labelSelector", Type::Message(&LABEL_SELECTOR)),
        field(5, "minDomains", Type::Int),
        field(6, "nodeAffinityPolicy", Type::Text),
        field(7, "nodeTaintsPolicy", Type::Text),
        list(8, "matchLabelKeys", Type::Text),
    ],
);

pub(super) static TYPED_LOCAL_OBJECT_REFERENCE: Descriptor = message(
    "TypedLocalObjectReference",
    &[
        field(1, "apiGroup", Type::Text),
        field(2, "kind", Type::Text),
        field(3, "name", Type::Text),
    ],
);

pub(super) static TYPED_OBJECT_REFERENCE: Descriptor = message(
    "TypedObjectReference",
    &[
        field(1, "apiGroup", Type::Text),
        field(2, "kind", Type::Text),
        field(3, "name", Type::Text),
        field(4, "namespace", Type::Text),
    ],
);

pub(super) static VOLUME: Descriptor = message(
    "Volume",
    &[field(1, "name", Type::Text), field(2, "", Type::Inline(&VOLUME_SOURCE))],
);

pub(super) static VOLUME_DEVICE: Descriptor = message(
    "VolumeDevice",
    &[field(1, "name", Type::Text), field(2, "devicePath", Type::Text)],
);

pub(super) static VOLUME_MOUNT: Descriptor = message(
    "VolumeMount",
    &[
        field(1, "name", Type::Text),
        omitted(2, "readOnly", Type::Bool),
        field(3, "mountPath", Type::Text),
        omitted(4, "subPath", Type::Text),
        field(5, "mountPropagation", Type::Text),
        omitted(6, "subPathExpr", Type::Text),
        field(7, "recursiveReadOnly", Type::Text),
        list(8, "bindMountOptions", Type::Text),
    ],
);

pub(super) static VOLUME_PROJECTION: Descriptor = message(
    "VolumeProjection",
    &[
        field(1, "secret", Type::Message(&SECRET_PROJECTION)),
        field(2, "downwardAPI", Type::Message(&DOWNWARD_API_PROJECTION)),
        field(3, "configMap", Type::Message(&CONFIG_MAP_PROJECTION)),
        field(
            4,
            "serviceAccountToken",
            Type::Message(&SERVICE_ACCOUNT_TOKEN_PROJECTION),
        ),
        field(5, "clusterTrustBundle", Type::Message(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
        field(6, "podCertificate", Type::Message(&POD_CERTIFICATE_PROJECTION)),
    ],
);

pub(super) static VOLUME_RESOURCE_REQUIREMENTS: Descriptor = message(
    "VolumeResourceRequirements",
    &[
        field(1, "limits", Type::Map(&Type::Quantity)),
        field(2, "requests", Type::Map(&Type::Quantity)),
    ],
);

pub(super) static VOLUME_SOURCE: Descriptor = message(
    "VolumeSource",
    &[
        field(1, "hostPath", Type::Message(&HOST_PATH_VOLUME_SOURCE)),
        field(2, "emptyDir", Type::Message(&EMPTY_DIR_VOLUME_SOURCE)),
        field(
            3,
            "gcePersistentDisk",
            Type::Message(&GCE_PERSISTENT_DISK_VOLUME_SOURCE),
        ),
        field(
            4,
            "awsElasticBlockStore",
            Type::Message(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE),
        ),
        field(5, "gitRepo", Type::Message(&GIT_REPO_VOLUME_SOURCE)),
        field(6, "secret", Type::Message(&SECRET_VOLUME_SOURCE)),
        field(7, "nfs", Type::Message(&NFS_VOLUME_SOURCE)),
        field(8, "iscsi", Type::Message(&ISCSI_VOLUME_SOURCE)),
        field(9, "glusterfs", Type::Message(&GLUSTERFS_VOLUME_SOURCE)),
        field(
            10,
            "persistentVolumeClaim",
            Type::Message(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE),
        ),
        field(11, "rbd", Type::Message(&RBD_VOLUME_SOURCE)),
        field(12, "flexVolume", Type::Message(&FLEX_VOLUME_SOURCE)),
        field(13, "cinder", Type::Message(&CINDER_VOLUME_SOURCE)),
        field(14, "cephfs", Type::Message(&CEPH_FS_VOLUME_SOURCE)),
        field(15, "flocker", Type::Message(&FLOCKER_VOLUME_SOURCE)),
        field(16, "downwardAPI", Type::Message(&DOWNWARD_API_VOLUME_SOURCE)),
        field(17, "fc", Type::Message(&FC_VOLUME_SOURCE)),
        field(18, "azureFile", Type::Message(&AZURE_FILE_VOLUME_SOURCE)),
        field(19, "configMap", Type::Message(&CONFIG_MAP_VOLUME_SOURCE)),
        field(20, "vsphereVolume", Type::Message(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        field(21, "quobyte", Type::Message(&QUOBYTE_VOLUME_SOURCE)),
        field(22, "azureDisk", Type::Message(&AZURE_DISK_VOLUME_SOURCE)),
        field(
            23,
            "photonPersistentDisk",
            Type::Message(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE),
        ),
        field(24, "portworxVolume", Type::Message(&PORTWORX_VOLUME_SOURCE)),
        field(25, "scaleIO", Type::Message(&SCALE_IO_VOLUME_SOURCE)),
        field(26, "projected", Type::Message(&PROJECTED_VOLUME_SOURCE)),
        field(27, "storageos", Type::Message(&STORAGE_OS_VOLUME_SOURCE)),
        field(28, "csi", Type::Message(&CSI_VOLUME_SOURCE)),
        field(29, "ephemeral", Type::Message(&EPHEMERAL_VOLUME_SOURCE)),
        field(30, "image", Type::Message(&IMAGE_VOLUME_SOURCE)),
    ],
);

pub(super) static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Descriptor = message(
    "VsphereVirtualDiskVolumeSource",
    &[
        field(1, "volumePath", Type::Text),
        omitted(2, "fsType", Type::Text),
        omitted(3, "storagePolicyName", Type::Text),
        omitted(4, "storagePolicyID", Type::Text),
    ],
);

pub(super) static WEIGHTED_POD_AFFINITY_TERM: Descriptor = message(
    "WeightedPodAffinityTerm",
    &[
        field(1, "weight", Type::Int),
        field(2, "podAffinityTerm", Type::Message(&POD_AFFINITY_TERM)),
    ],
);

pub(super) static WINDOWS_SECURITY_CONTEXT_OPTIONS: Descriptor = message(
    "WindowsSecurityContextOptions",
    &[
        field(1, "gmsaCredentialSpecName", Type::Text),
        field(2, "gmsaCredentialSpec", Type::Text),
        field(3, "runAsUserName", Type::Text),
        field(4, "hostProcess", Type::Bool),
    ],
);
