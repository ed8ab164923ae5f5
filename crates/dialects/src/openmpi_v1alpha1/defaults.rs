//! The values that the component gave its parameters, and the paths that its scripts rely on. Judges
//! nothing.

/// Worker pods.
pub(super) const WORKERS: i64 = 4;
/// Seconds for initialisation.
pub(super) const INIT_TIMEOUT: i64 = 300;
/// The script that brings a pod up.
pub(super) const INIT: &str = "/kubeflow/openmpi/assets/init.sh";
/// What the master runs: nothing, for a person who comes with `kubectl exec`.
pub(super) const EXEC: &str = "sleep infinity";
/// Whether the image is pulled.
pub(super) const IMAGE_PULL_POLICY: &str = "IfNotPresent";
/// Who places the pods.
pub(super) const SCHEDULER: &str = "default-scheduler";
/// The component's sidecar. muster's agent does its work.
pub(super) const CONTROLLER_IMAGE: &str = "jiez/openmpi-controller:0.0.3";

/// What job and sidecar share, and where they work.
pub(super) const DATA: &str = "/kubeflow/openmpi/data";
/// Where the ConfigMap is mounted.
pub(super) const ASSETS: &str = "/kubeflow/openmpi/assets";
/// Where the user's Secret is mounted.
pub(super) const SECRETS: &str = "/kubeflow/openmpi/secrets";
/// Port of the workers' sshd.
pub(super) const SSH_PORT: u16 = 2022;
/// Port of the Service. No process listens on it.
pub(super) const SERVICE_PORT: u16 = 12345;
