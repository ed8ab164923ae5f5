//! MPIJobs by words: what a test says about a job, and nothing that it does not say, as the JSON
//! that a user would have written. Decides the spelling of fields; must not know any cluster.

use serde_json::{Map, Value, json};

/// A job of `kubeflow.org/v2beta1` that is being described. Without further words it has a launcher
/// and no workers, and all that can be left out is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct MpiJob {
    json: Value,
}

impl MpiJob {
    /// A job of this name, whose only container runs an image that no node has.
    pub fn named(name: &str) -> Self {
        let json = json!({
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": {"name": name},
            "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template("launcher")}}},
        });
        Self { json }
    }

    /// In this namespace.
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.with("/metadata/namespace", namespace)
    }

    /// With so many workers.
    pub fn workers(mut self, count: u32) -> Self {
        let replicas = &mut self.json["spec"]["mpiReplicaSpecs"];
        if replicas["Worker"].is_null() {
            replicas["Worker"] = json!({"template": template("worker")});
        }
        replicas["Worker"]["replicas"] = count.into();
        self
    }

    /// With so many ranks on each host.
    pub fn slots(self, count: u32) -> Self {
        self.with("/spec/slotsPerWorker", count)
    }

    /// `OpenMPI`, `Intel` or `MPICH`.
    pub fn implementation(self, name: &str) -> Self {
        self.with("/spec/mpiImplementation", name)
    }

    /// All pods run this image, from the node and never from a registry.
    pub fn image(mut self, image: &str) -> Self {
        for role in ["Launcher", "Worker"] {
            if let Some(container) = self.container(role) {
                container["image"] = image.into();
                container["imagePullPolicy"] = "Never".into();
            }
        }
        self
    }

    /// The launcher runs this.
    pub fn launcher_command(mut self, words: &[&str]) -> Self {
        self.container("Launcher")
            .expect("every job has a launcher")["command"] = json!(words);
        self
    }

    /// The launcher's image is started with this.
    pub fn launcher_args(mut self, words: &[&str]) -> Self {
        self.container("Launcher")
            .expect("every job has a launcher")["args"] = json!(words);
        self
    }

    /// Each worker runs this.
    pub fn worker_command(mut self, words: &[&str]) -> Self {
        self.container("Worker").expect("say `workers` first")["command"] = json!(words);
        self
    }

    /// Each worker's image is started with this.
    pub fn worker_args(mut self, words: &[&str]) -> Self {
        self.container("Worker").expect("say `workers` first")["args"] = json!(words);
        self
    }

    /// The launcher takes ranks too.
    pub fn launcher_as_worker(self) -> Self {
        self.with("/spec/runLauncherAsWorker", true)
    }

    /// The launcher starts once every worker is Ready.
    pub fn wait_for_workers(self) -> Self {
        self.with("/spec/launcherCreationPolicy", "WaitForWorkersReady")
    }

    /// The SSH key pair is mounted here.
    pub fn ssh_mount_path(self, path: &str) -> Self {
        self.with("/spec/sshAuthMountPath", path)
    }

    /// `None`, `Running` or `All`.
    pub fn clean_pod_policy(self, policy: &str) -> Self {
        self.with("/spec/runPolicy/cleanPodPolicy", policy)
    }

    /// Held by its user from the beginning.
    pub fn suspended(self) -> Self {
        self.with("/spec/runPolicy/suspend", true)
    }

    /// Run by this controller.
    pub fn managed_by(self, controller: &str) -> Self {
        self.with("/spec/runPolicy/managedBy", controller)
    }

    /// The launcher is tried again so often.
    pub fn backoff_limit(self, count: u32) -> Self {
        self.with("/spec/runPolicy/backoffLimit", count)
    }

    /// The job may take so long.
    pub fn deadline_secs(self, secs: u64) -> Self {
        self.with("/spec/runPolicy/activeDeadlineSeconds", secs)
    }

    /// The launcher Job goes so long after its end.
    pub fn ttl_secs(self, secs: u64) -> Self {
        self.with("/spec/runPolicy/ttlSecondsAfterFinished", secs)
    }

    /// `Never` or `OnFailure`, for the launcher.
    pub fn launcher_restart_policy(self, policy: &str) -> Self {
        self.with("/spec/mpiReplicaSpecs/Launcher/restartPolicy", policy)
    }

    /// Any field, by its JSON pointer; objects on the way to it are made, list items are not.
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut place = &mut self.json;
        for token in pointer.split('/').skip(1) {
            let key = token.replace("~1", "/").replace("~0", "~");
            place = match place {
                Value::Array(items) => {
                    let index: usize = key.parse().expect("a list item is named by its number");
                    &mut items[index]
                }
                object => {
                    if object.is_null() {
                        *object = Value::Object(Map::new());
                    }
                    &mut object[key]
                }
            };
        }
        *place = value.into();
        self
    }

    /// The object, as a user would send it.
    pub fn json(&self) -> Value {
        self.json.clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.json["metadata"]["name"]
            .as_str()
            .expect("every job is made with a name")
    }

    fn container(&mut self, role: &str) -> Option<&mut Value> {
        let pointer = format!("/spec/mpiReplicaSpecs/{role}/template/spec/containers/0");
        self.json.pointer_mut(&pointer)
    }
}

fn template(container: &str) -> Value {
    json!({"spec": {"containers": [{"name": container, "image": "nowhere.invalid/none:0"}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_says_what_was_said_and_no_more() {
        let job = MpiJob::named("pi")
            .workers(2)
            .clean_pod_policy("Running")
            .json();
        assert_eq!(job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], 2);
        assert_eq!(
            job["spec"]["runPolicy"],
            json!({"cleanPodPolicy": "Running"})
        );
        assert_eq!(job["spec"].get("slotsPerWorker"), None);
    }

    #[test]
    fn an_image_is_for_all_pods() {
        let job = MpiJob::named("pi").workers(1).image("here:1").json();
        for role in ["Launcher", "Worker"] {
            let container =
                &job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0];
            assert_eq!(container["image"], "here:1");
            assert_eq!(container["imagePullPolicy"], "Never");
        }
    }

    #[test]
    fn a_pointer_makes_the_objects_on_its_way() {
        let key = "/metadata/labels/kueue.x-k8s.io~1queue-name";
        let job = MpiJob::named("pi").with(key, "a").json();
        assert_eq!(
            job["metadata"]["labels"],
            json!({"kueue.x-k8s.io/queue-name": "a"})
        );
    }
}
