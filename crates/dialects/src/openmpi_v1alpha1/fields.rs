//! The parameters of the openmpi component with its names and its defaults, of which the string `null`
//! is one, the status of a component, and its definition. A parameter cannot be changed afterwards, because
//! the pods that it went into cannot.

use super::defaults;
use super::lower::{GPUS_MAX, WORKERS_MAX};
use super::types::UNSET;
use crate::definition::{Definition, LABELS, Rule, TIMES};
use crate::field::Literal::{EmptyList, Number, Text};
use crate::field::{self, Field, FieldType, INT32, Shape, fields};

const NULL: field::Literal = Text(UNSET);
/// The cost of a rule is estimated from the longest text there may be.
const REQUIRED: Shape = field::TEXT.not_empty().max_length(1024).immutable();
const TEXT: Shape = REQUIRED.or(NULL);
const INTEGER: Shape = Shape::of(FieldType::IntOrText).at_least(0).immutable();
const COUNT: Shape = INTEGER.max_length(10).matching("^(null|[0-9]+)$");
const ID: Shape = COUNT.between(0, i32::MAX as i64).or(NULL);
/// A quantity as Kubernetes reads it, or `null`.
const QUANTITY: Shape = Shape::of(FieldType::IntOrText)
    .max_length(64)
    .matching(r"^(null|(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?)$")
    .or(NULL)
    .immutable();
const S3_ADDRESS: Shape = TEXT.matching("^(null|s3://[A-Za-z0-9._-]+(/.*)?)$");
const OBJECTS: Shape = Shape::of(FieldType::List(Some(&Shape::of(FieldType::AnyObject))))
    .max_items(64)
    .or(EmptyList);

/// The list.
pub const FIELDS: &[Field] = fields! {
    Checked "spec.name": TEXT, r#""other""#
        => "Name of the component: null or the same as metadata.name.";
    Checked "spec.namespace": TEXT, r#""other""#
        => "Namespace of the component: null or the same as metadata.namespace.";
    Honoured "spec.image": REQUIRED.required(), r#""b""#
        => "Image of the master and of the workers.";
    Honoured "spec.secret": REQUIRED.required(), r#""b""#
        => "Existing Secret with id_rsa, id_rsa.pub and authorized_keys. muster never changes it.";
    Honoured "spec.workers": COUNT.between(0, WORKERS_MAX).or(Number(defaults::WORKERS)), "3"
        => "How many workers: 0 to 10000. 4 if not set.";
    Honoured "spec.init": TEXT, r#""/init.sh""#
        => "Path of the script that starts a pod. /kubeflow/openmpi/assets/init.sh if null.";
    Honoured "spec.exec": TEXT.max_length(65_536), r#""date""#
        => "Shell command that the master runs with `sh -c` once every worker answers. `sleep infinity` if null.";
    Honoured "spec.imagePullPolicy": TEXT.one_of(&["Always", "IfNotPresent", "Never", UNSET]).or(Text(defaults::IMAGE_PULL_POLICY)), r#""Always""#
        => "When the image is pulled: Always, IfNotPresent or Never. IfNotPresent if not set.";
    Honoured "spec.imagePullSecrets": TEXT.matching("^(null|[a-z0-9]([-a-z0-9.]*[a-z0-9])?(,[a-z0-9]([-a-z0-9.]*[a-z0-9])?)*)$"), r#""a,b""#
        => "Names of image pull Secrets, separated by commas.";
    Honoured "spec.gpu": COUNT.between(0, GPUS_MAX).or(Number(0)), "2"
        => "GPUs per worker: the limit nvidia.com/gpu and the number of slots. Workers wait for the driver. 0 if not set.";
    Honoured "spec.cpu": QUANTITY, r#""2""# => "CPU limit per worker.";
    Honoured "spec.memory": QUANTITY, r#""1Gi""# => "Memory limit per worker.";
    Honoured "spec.customResources": TEXT.matching("^(null|[^,=]+=[^,]+(,[^,=]+=[^,]+)*)$"), r#""rdma/hca=1""#
        => "More limits per worker: resource=amount, separated by commas. They override gpu, cpu and memory.";
    Honoured "spec.serviceAccountName": TEXT, r#""b""#
        => "Service account of the pods. If null, muster creates one that may read the namespace's pods.";
    Honoured "spec.schedulerName": TEXT.or(Text(defaults::SCHEDULER)), r#""b""#
        => "Scheduler of the pods. default-scheduler if not set.";
    Honoured "spec.controllerImage": TEXT.or(Text(defaults::CONTROLLER_IMAGE)), r#""b""#
        => "Image of the workers' sidecar. muster starts it with the component's arguments. With the default value, muster uses its agent instead, which does the same work.";
    Honoured "spec.initTimeout": COUNT.between(0, i32::MAX as i64).or(Number(defaults::INIT_TIMEOUT)), "600"
        => "Initialisation fails after this many seconds, with exit code 124. 300 if not set.";
    Honoured "spec.nodeSelector": TEXT.matching("^(null|[^,=]+=[^,]*(,[^,=]+=[^,]*)*)$"), r#""a=b""#
        => "Labels that the workers' nodes must have: key=value, separated by commas.";
    Honoured "spec.s3Secret": TEXT, r#""b""#
        => "Secret whose entries become the sidecar's environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, optionally AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and AWS_CA_BUNDLE.";
    Honoured "spec.downloadDataFrom": S3_ADDRESS, r#""s3://b/in""#
        => "S3 address that each worker copies from before it is Ready. Needs downloadDataTo.";
    Honoured "spec.downloadDataTo": TEXT, r#""other""#
        => "Path that each worker copies to; a relative path is below /kubeflow/openmpi/data.";
    Honoured "spec.uploadDataFrom": TEXT, r#""other""#
        => "Path that each worker copies from after the master has ended, if the path exists. Needs uploadDataTo.";
    Honoured "spec.uploadDataTo": S3_ADDRESS, r#""s3://b/out""#
        => "S3 address that each worker copies to. muster appends /namespace/name/pod.";
    Honoured "spec.runAsUser": ID, "1000" => "User ID of the pods.";
    Honoured "spec.runAsGroup": ID, "1000" => "Group ID of the pods and of their volumes.";
    Honoured "spec.supplementalGroups": ID.max_length(1024).matching("^(null|[0-9]+(,[0-9]+)*)$"), r#""1,2""#
        => "More group IDs of the pods, separated by commas.";
    Honoured "spec.volumes": OBJECTS, r#"[{"name": "v", "emptyDir": {}}]"#
        => "More volumes of the pods.";
    Honoured "spec.volumeMounts": OBJECTS, r#"[{"name": "v", "mountPath": "/v"}]"#
        => "More mounts of the job's container and of the sidecar.";
    Honoured "spec.useHostNetwork": Shape::of(FieldType::Any).or(Text("false")), r#""TRUE""#
        => "Workers use the network of their node; the master does not. At most one worker runs on each node, because each sshd listens on port 2022. True values: true, \"true\" in upper or lower case, and any number other than 0.";
};

const STATUS: &[Field] = fields! {
    "status.master.active": INT32 => "";
    "status.master.succeeded": INT32 => "";
    "status.master.failed": INT32 => "";
    "status.workers.active": INT32 => "";
    "status.workers.succeeded": INT32 => "";
    "status.workers.failed": INT32 => "";
};

/// The custom resource definition.
pub(super) const DEFINITION: Definition = Definition {
    description: "An Open MPI job by the parameters of Kubeflow's ksonnet component openmpi.",
    is_installed: true,
    labels: LABELS,
    short_names: &[],
    scale: None,
    state_column: ("State", "string", ".status.muster.phase"),
    wide_columns: &[("Image", "string", ".spec.image")],
    status: &[TIMES, STATUS],
    rules,
};

const RULES: [(&str, &str, &str); 5] = [
    (
        "",
        "!has(self.metadata.name) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name: must be a DNS label that begins with a letter, because the Service is called by it",
    ),
    (
        "",
        "!has(self.metadata.name) || size(self.metadata.name) + size(string(self.spec.workers)) <= 55",
        "metadata.name: is too long, because hosts are called by it: NAME-worker-NUMBER has at most 63 characters",
    ),
    (
        "",
        "!has(self.spec.name) || !has(self.metadata.name) || self.spec.name in ['null', self.metadata.name]",
        "spec.name: must be null or as metadata.name",
    ),
    (
        "spec",
        "self.image != 'null'",
        "spec.image: must name the image of master and workers",
    ),
    (
        "spec",
        "self.secret != 'null'",
        "spec.secret: must name a Secret with id_rsa, id_rsa.pub and authorized_keys",
    ),
];

fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = RULES
        .map(|(on, rule, message)| Rule::new(on, rule, message))
        .into();
    let given = |name: &str| format!("(has(self.{name}) && self.{name} != 'null')");
    for (first, second) in [
        ("downloadDataFrom", "downloadDataTo"),
        ("uploadDataTo", "uploadDataFrom"),
    ] {
        let message = format!(
            "spec.{first}: must stand beside spec.{second}: one without the other copies nothing"
        );
        let rule = format!("{} == {}", given(first), given(second));
        rules.push(Rule::new("spec", rule, &message));
        let message = format!("spec.s3Secret: must name the Secret with the keys for spec.{first}");
        let rule = format!("!{} || {}", given(first), given("s3Secret"));
        rules.push(Rule::new("spec", rule, &message));
    }
    rules
}
