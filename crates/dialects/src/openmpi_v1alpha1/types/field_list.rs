//! Every parameter of the component, and what becomes of it.

use crate::field::Field;

/// The parameters.
pub(crate) const FIELDS: &[Field] = &[
    Field::honoured(
        "spec.name",
        r#""other""#,
        "Name of the component; metadata.name, or not set.",
    ),
    Field::honoured(
        "spec.namespace",
        r#""other""#,
        "Namespace of the component; metadata.namespace, or not set.",
    ),
    Field::honoured(
        "spec.image",
        r#""b""#,
        "Image of master and workers; required.",
    ),
    Field::honoured(
        "spec.secret",
        r#""b""#,
        "Secret of the user's with id_rsa, id_rsa.pub and authorized_keys; required, never changed.",
    ),
    Field::honoured(
        "spec.workers",
        "3",
        "Worker pods; 4 if not set, 0 for none.",
    ),
    Field::honoured(
        "spec.init",
        r#""/init.sh""#,
        "Path of the script that brings a pod up; /kubeflow/openmpi/assets/init.sh if not set.",
    ),
    Field::honoured(
        "spec.exec",
        r#""date""#,
        "Shell command of the master, for `sh -c`, unchanged; sleep infinity if not set.",
    ),
    Field::honoured(
        "spec.imagePullPolicy",
        r#""Always""#,
        "Of image; IfNotPresent if not set.",
    ),
    Field::honoured(
        "spec.imagePullSecrets",
        r#""a,b""#,
        "Names of Secrets, separated by commas.",
    ),
    Field::honoured(
        "spec.gpu",
        "2",
        "GPUs per worker: limit nvidia.com/gpu, slots in the hostfile, wait for the driver; 0 if not set.",
    ),
    Field::honoured("spec.cpu", r#""2""#, "CPU limit per worker."),
    Field::honoured("spec.memory", r#""1Gi""#, "Memory limit per worker."),
    Field::honoured(
        "spec.customResources",
        r#""rdma/hca=1""#,
        "More limits per worker: resource=amount, separated by commas; they win.",
    ),
    Field::honoured(
        "spec.serviceAccountName",
        r#""b""#,
        "Account of the pods; one that may read the namespace's pods is made if not set.",
    ),
    Field::honoured(
        "spec.schedulerName",
        r#""b""#,
        "Scheduler of the pods; default-scheduler if not set.",
    ),
    Field::honoured(
        "spec.controllerImage",
        r#""b""#,
        "Image of the workers' sidecar, called with the component's words; muster's agent if not set, or if it is the component's own.",
    ),
    Field::honoured(
        "spec.initTimeout",
        "600",
        "Seconds after which initialisation is given up, with exit code 124; 300 if not set.",
    ),
    Field::honoured(
        "spec.nodeSelector",
        r#""a=b""#,
        "Labels of the workers' nodes: key=value, separated by commas.",
    ),
    Field::honoured(
        "spec.s3Secret",
        r#""b""#,
        "Secret whose entries are the sidecar's environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and if need be AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_CA_BUNDLE.",
    ),
    Field::honoured(
        "spec.downloadDataFrom",
        r#""s3://b/in""#,
        "S3 address that each worker copies from before it is ready; beside downloadDataTo.",
    ),
    Field::honoured(
        "spec.downloadDataTo",
        r#""other""#,
        "Path to copy to, below /kubeflow/openmpi/data if it is relative.",
    ),
    Field::honoured(
        "spec.uploadDataFrom",
        r#""other""#,
        "Path that each worker copies from after the end, if it is there; beside uploadDataTo.",
    ),
    Field::honoured(
        "spec.uploadDataTo",
        r#""s3://b/out""#,
        "S3 address to copy to; /namespace/name/pod is appended.",
    ),
    Field::honoured("spec.runAsUser", "1000", "User of the pods."),
    Field::honoured(
        "spec.runAsGroup",
        "1000",
        "Group of the pods and of their volumes.",
    ),
    Field::honoured(
        "spec.supplementalGroups",
        r#""1,2""#,
        "More groups of the pods, separated by commas.",
    ),
    Field::honoured(
        "spec.volumes",
        r#"[{"name": "v", "emptyDir": {}}]"#,
        "More volumes of the pods.",
    ),
    Field::honoured(
        "spec.volumeMounts",
        r#"[{"name": "v", "mountPath": "/v"}]"#,
        "More mounts of job and sidecar.",
    ),
    Field::honoured(
        "spec.useHostNetwork",
        r#""TRUE""#,
        "Workers, not the master, use the network of their node: one worker per node, since their sshd all have port 2022.",
    ),
];
