//! Jobs and worlds for tests, built by sentences: `job("demo").workers(2)`, `world(job)`. Also
//! carries a plan out on an observation, as a perfect cluster would.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::contract::{END_ANNOTATION, HOSTS_ANNOTATION, TEMPLATE_ANNOTATION};
use crate::job::{
    Account, CleanUp, GangWish, HostNames, Job, LauncherAs, LauncherStart, Mpi, Owner, Policy,
    RestartPolicy, Right, Role, Transport, Workers, WorkersAs,
};
use crate::observed::{
    AccountObject, Config, Directives, Key, Launcher, LauncherEnd, Observed, Pod, PodGroup,
    PodPhase, Refusal, Service, Site, Slot, WorkerSet,
};
use crate::plan::{Action, Kind, Object, Plan};
use crate::status::{Outcome, Recorded, Verdict};

/// The time at which every world begins.
pub fn noon() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().expect("this is a timestamp")
}

/// Noon and so many seconds.
pub fn noon_and(secs: i64) -> Timestamp {
    noon() + jiff::SignedDuration::from_secs(secs)
}

/// A job of a launcher alone, with every default.
pub fn job(name: &str) -> Job {
    let container = json!({"spec": {"containers": [{"name": "main", "image": "pi"}]}});
    Job {
        owner: Owner {
            api_version: "kubeflow.org/v2beta1".to_owned(),
            kind: "MPIJob".to_owned(),
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            generation: 1,
            leaving: false,
        },
        mpi: Mpi::OpenMpi,
        slots: 1,
        launcher: Role {
            template: container,
            restart: RestartPolicy::OnFailure,
            labels: BTreeMap::new(),
            container: None,
        },
        workers: None,
        workers_as: WorkersAs::Pods,
        launcher_as: LauncherAs::Job,
        launcher_is_host: false,
        launcher_is_indexed: true,
        host_names: HostNames::Service,
        discovery_tells_slots: false,
        exec_script: false,
        launcher_start: LauncherStart::AtOnce,
        transport: None,
        gate: true,
        ssh_port: None,
        census: true,
        ssh_mount_path: "/root/.ssh".to_owned(),
        elastic: false,
        policy: Policy {
            clean: CleanUp::Nothing,
            clean_covers_launcher: false,
            failed_worker_is_fatal: false,
            ttl_secs: None,
            expires_secs: None,
            deadline_secs: None,
            startup_secs: None,
            backoff_limit: None,
            suspended: false,
        },
        gang_scheduler: None,
        gang: GangWish::default(),
        tells_of_pods: false,
        outlives_launcher: false,
        account: None,
        bootstrap: None,
    }
}

/// Words for jobs.
impl Job {
    /// With so many workers of the plainest kind.
    pub fn workers(mut self, count: u32) -> Self {
        let template = json!({"spec": {"containers": [{"name": "main", "image": "pi"}]}});
        let role = Role {
            template,
            restart: RestartPolicy::Never,
            labels: BTreeMap::new(),
            container: None,
        };
        self.workers = Some(Workers {
            count,
            role,
            drops_bare_args: false,
        });
        self
    }

    /// With changes.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Held by the user.
    pub fn suspended(self) -> Self {
        self.with(|job| job.policy.suspended = true)
    }

    /// With this clean-up policy.
    pub fn clean(self, clean: CleanUp) -> Self {
        self.with(|job| job.policy.clean = clean)
    }

    /// Whose launcher is a pod, whose hosts are called by their pods' names, and which lives and ends
    /// as jobs do whose operator makes all pods itself.
    pub fn of_pods(self) -> Self {
        self.with(|job| {
            job.launcher_as = LauncherAs::Pod;
            job.host_names = HostNames::Pods;
            job.discovery_tells_slots = true;
            job.exec_script = true;
            job.launcher_is_indexed = false;
            job.transport = Some(Transport::Agent);
            job.launcher.restart = RestartPolicy::Never;
            job.policy.clean_covers_launcher = true;
            job.policy.failed_worker_is_fatal = true;
        })
    }

    /// Whose launcher may see pods, and go into the workers.
    pub fn with_account(self) -> Self {
        self.with(|job| {
            let workers = (0..job.worker_count()).map(|index| job.worker_name(index));
            let see = Right {
                resource: "pods",
                verbs: &["get", "list", "watch"],
                names: None,
            };
            let enter = Right {
                resource: "pods/exec",
                verbs: &["get", "create"],
                names: Some(workers.collect()),
            };
            job.account = Some(Account {
                name: job.launcher_name(),
                given: None,
                rights: vec![see, enter],
            });
        })
    }

    /// Whose workers are a StatefulSet's, reached through the API server, and which outlives its
    /// launcher.
    pub fn of_a_set(self) -> Self {
        let job = self.launcher_waits().with_account();
        job.with(|job| {
            job.launcher_as = LauncherAs::Pod;
            job.workers_as = WorkersAs::StatefulSet;
            job.host_names = HostNames::Pods;
            job.transport = Some(Transport::Exec);
            job.exec_script = true;
            job.gate = false;
            job.census = false;
            job.launcher.restart = RestartPolicy::Never;
            job.outlives_launcher = true;
            if let Some(workers) = &mut job.workers {
                workers.role.restart = RestartPolicy::Always;
            }
        })
    }

    /// Whose launcher waits for its workers.
    pub fn launcher_waits(self) -> Self {
        self.with(|job| job.launcher_start = LauncherStart::WhenWorkersReady)
    }
}

/// A world in which only the job exists.
pub fn world(job: Job) -> Observed {
    Observed::alone(job, Site::default(), noon())
}

/// A pod in its first moment.
pub fn pod(name: &str) -> Pod {
    Pod {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labelled: true,
        created_at: noon(),
        deleting: false,
        phase: PodPhase::Pending,
        begun: false,
        ready: false,
        waiting: None,
        reason: String::new(),
        message: String::new(),
        node: String::new(),
        address: String::new(),
        hosts: String::new(),
        told_end: false,
        restarts: 0,
        finished_at: None,
        exit: None,
    }
}

/// Words for worlds.
impl Observed {
    /// With changes.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// After plans were carried out until there was nothing left to do.
    pub fn settled(mut self) -> Self {
        for _ in 0..8 {
            let plan = crate::plan(&self);
            let broken = crate::check::violations(&self, &plan);
            assert!(broken.is_empty(), "a law is broken: {broken:?}");
            if plan.steps.is_empty() {
                return self;
            }
            self.carry_out(&plan);
        }
        panic!("the plans never came to rest: {:?}", crate::plan(&self));
    }

    /// With the status written as the plan says.
    pub fn recorded(mut self) -> Self {
        let status = crate::plan(&self).status;
        self.recorded = Recorded {
            seen: true,
            started_at: status.started_at,
            suspended: status.suspended,
            outcome: status.outcome.filter(|_| !self.job.outlives_launcher),
            restarts: status.restarts,
            replaced: status.replaced,
        };
        self
    }

    /// With every worker in this phase.
    pub fn workers_are(mut self, phase: PodPhase) -> Self {
        self.workers.iter_mut().for_each(|pod| pod.phase = phase);
        self
    }

    /// With every worker running and Ready.
    pub fn workers_ready(mut self) -> Self {
        for pod in &mut self.workers {
            (pod.phase, pod.ready) = (PodPhase::Running, true);
        }
        self
    }

    /// With a launcher pod in this phase.
    pub fn launcher_pod(mut self, name: &str, phase: PodPhase) -> Self {
        self.launcher_pods.push(Pod { phase, ..pod(name) });
        self
    }

    /// With the launcher's Job at its end.
    pub fn launcher_ended(self, end: LauncherEnd) -> Self {
        self.with(|world| match &mut world.launcher {
            Slot::Ours(launcher) => launcher.end = Some(end),
            Slot::Absent | Slot::Foreign => panic!("there is no launcher that could end"),
        })
    }

    /// With a job that runs: pods up, status written.
    pub fn running(self) -> Self {
        self.settled()
            .workers_ready()
            .settled()
            .launcher_pod("l-0", PodPhase::Running)
            .recorded()
    }

    /// With an outcome in the status.
    pub fn over(self, verdict: Verdict) -> Self {
        self.with(|world| {
            world.recorded.outcome = Some(Outcome {
                verdict,
                at: noon(),
            })
        })
    }

    /// With the API server's no to this object, worth another try only after a minute.
    pub fn refusing(self, kind: Kind, name: &str, code: u16, message: &str) -> Self {
        self.with(|world| {
            let (name, message) = (name.to_owned(), message.to_owned());
            let retry_at = world.now + jiff::SignedDuration::from_mins(1);
            world.refused.push(Refusal {
                kind,
                name,
                code,
                message,
                retry_at,
            });
        })
    }

    /// Carries a plan out as a perfect cluster would.
    pub fn carry_out(&mut self, plan: &Plan) {
        for action in plan.steps.iter().flatten() {
            match action {
                Action::Create(object) | Action::CreateKey { secret: object, .. } => {
                    self.create(object);
                }
                Action::Patch {
                    kind: Kind::Pod,
                    name,
                    merge,
                    ..
                } => self.annotate(name, merge),
                Action::Patch { kind, merge, .. } => self.patch(kind, merge),
                Action::Delete { kind, name, .. } => match kind {
                    Kind::Pod => {
                        self.workers.retain(|pod| pod.name != *name);
                        self.launcher_pods.retain(|pod| pod.name != *name);
                    }
                    Kind::Secret => self.key = Slot::Absent,
                    Kind::VolcanoPodGroup | Kind::SchedulerPluginsPodGroup | Kind::T9kPodGroup => {
                        self.pod_group = Slot::Absent;
                    }
                    other => panic!("no plan deletes a {}", other.as_str()),
                },
                Action::DeleteWorkers { names, .. } => {
                    self.workers.retain(|pod| !names.contains(&pod.name));
                }
                // Somebody's finalizer may hold it, which is the harder case.
                Action::DeleteJob { .. } => self.job.owner.leaving = true,
            }
        }
    }

    fn create(&mut self, object: &Object) {
        let uid = format!("uid-{}", object.name);
        let spec = &object.body["spec"];
        match object.kind {
            Kind::Service => self.service = Slot::Ours(service(uid, spec)),
            Kind::ConfigMap => {
                let data = texts(&object.body["data"]);
                self.config = Slot::Ours(Config { uid, data });
            }
            Kind::Secret => self.key = Slot::Ours(Key { uid }),
            Kind::ServiceAccount | Kind::Role | Kind::RoleBinding => {
                let uid = format!("{uid}-{}", object.kind.as_str());
                *self.account_slot(&object.kind) = Slot::Ours(AccountObject {
                    uid,
                    rules: object.body["rules"].clone(),
                    subjects: object.body["subjects"].clone(),
                });
            }
            Kind::Pod if object.name == self.job.launcher_name() => {
                self.launcher_pods.push(pod(&object.name));
            }
            Kind::Pod => self.workers.push(pod(&object.name)),
            Kind::Job => self.launcher = Slot::Ours(launcher(uid, spec)),
            Kind::StatefulSet => {
                let annotations = &object.body["metadata"]["annotations"];
                let set = WorkerSet {
                    uid,
                    replicas: 0,
                    template: spec["template"].clone(),
                    fingerprint: text(&annotations[TEMPLATE_ANNOTATION]),
                    rolled_out: true,
                    deleting: false,
                };
                self.worker_set = Slot::Ours(set);
                self.scale_set(spec);
            }
            Kind::VolcanoPodGroup | Kind::SchedulerPluginsPodGroup | Kind::T9kPodGroup => {
                let group = PodGroup {
                    uid,
                    spec: spec.clone(),
                    deleting: false,
                };
                self.pod_group = Slot::Ours(group);
            }
        }
    }

    /// As its controller does, at once.
    fn scale_set(&mut self, spec: &Value) {
        let replicas = spec["replicas"].as_u64().map(u32::try_from);
        let (Slot::Ours(set), Some(Ok(replicas))) = (&mut self.worker_set, replicas) else {
            return;
        };
        set.replicas = replicas;
        let job = &self.job;
        let wanted = |pod: &Pod| {
            let index = job.worker_index(&pod.name);
            index.is_some_and(|index| index < replicas)
        };
        self.workers.retain(wanted);
        for index in 0..replicas {
            let name = job.worker_name(index);
            if self.workers.iter().all(|pod| pod.name != name) {
                self.workers.push(pod(&name));
            }
        }
    }

    /// New pods for a new template, as its controller makes them in time.
    fn patch_set(&mut self, merge: &Value) {
        self.scale_set(&merge["spec"]);
        let Slot::Ours(set) = &mut self.worker_set else {
            panic!("no plan patches a StatefulSet that is not there");
        };
        if let Some(template) = merge["spec"].get("template") {
            set.template = template.clone();
            set.fingerprint = text(&merge["metadata"]["annotations"][TEMPLATE_ANNOTATION]);
            for worker in &mut self.workers {
                *worker = pod(&worker.name);
            }
        }
    }

    fn annotate(&mut self, name: &str, merge: &Value) {
        let annotations = &merge["metadata"]["annotations"];
        let mut pods = self.launcher_pods.iter_mut().chain(&mut self.workers);
        let pod = pods.find(|pod| pod.name == name);
        let pod = pod.expect("no plan annotates a pod that is not there");
        if let Some(hosts) = annotations[HOSTS_ANNOTATION].as_str() {
            hosts.clone_into(&mut pod.hosts);
        }
        pod.told_end |= annotations[END_ANNOTATION].is_string();
    }

    fn account_slot(&mut self, kind: &Kind) -> &mut Slot<AccountObject> {
        match kind {
            Kind::ServiceAccount => &mut self.account.service_account,
            Kind::Role => &mut self.account.role,
            _ => &mut self.account.binding,
        }
    }

    fn patch_account(&mut self, kind: &Kind, merge: &Value) {
        let Slot::Ours(object) = self.account_slot(kind) else {
            panic!("no plan patches a {} that is not there", kind.as_str());
        };
        for (key, now) in [
            ("rules", &mut object.rules),
            ("subjects", &mut object.subjects),
        ] {
            if let Some(value) = merge.get(key) {
                *now = value.clone();
            }
        }
    }

    fn patch(&mut self, kind: &Kind, merge: &Value) {
        let spec = &merge["spec"];
        match (
            kind,
            &mut self.service,
            &mut self.config,
            &mut self.launcher,
        ) {
            (Kind::Service, Slot::Ours(now), _, _) => *now = service(now.uid.clone(), spec),
            (Kind::ConfigMap, _, Slot::Ours(now), _) => now.data = texts(&merge["data"]),
            (Kind::Job, _, _, Slot::Ours(now)) => patch_launcher(now, merge),
            (Kind::StatefulSet, ..) => self.patch_set(merge),
            (Kind::Role | Kind::RoleBinding, ..) => self.patch_account(kind, merge),
            (Kind::VolcanoPodGroup | Kind::SchedulerPluginsPodGroup | Kind::T9kPodGroup, ..) => {
                self.patch_pod_group(spec);
            }
            (other, ..) => panic!("no plan patches this {}", other.as_str()),
        }
    }

    fn patch_pod_group(&mut self, spec: &Value) {
        let (Slot::Ours(group), Some(changes)) = (&mut self.pod_group, spec.as_object()) else {
            panic!("no plan patches a PodGroup that is not there");
        };
        for (key, value) in changes {
            match group.spec.as_object_mut() {
                Some(now) if value.is_null() => drop(now.remove(key)),
                Some(now) => drop(now.insert(key.clone(), value.clone())),
                None => group.spec = spec.clone(),
            }
        }
    }
}

fn service(uid: String, spec: &Value) -> Service {
    let publish_not_ready = spec["publishNotReadyAddresses"] == Value::Bool(true);
    Service {
        uid,
        selector: texts(&spec["selector"]),
        publish_not_ready,
    }
}

fn launcher(uid: String, spec: &Value) -> Launcher {
    let template = &spec["template"];
    Launcher {
        uid,
        suspended: spec["suspend"] == Value::Bool(true),
        started_at: None,
        deleting: false,
        failed_pods: 0,
        end: None,
        ttl_secs: None,
        directives: Directives {
            labels: texts(&template["metadata"]["labels"]),
            annotations: texts(&template["metadata"]["annotations"]),
            node_selector: template["spec"]["nodeSelector"].clone(),
            tolerations: template["spec"]["tolerations"].clone(),
            scheduling_gates: template["spec"]["schedulingGates"].clone(),
            node_affinity: template["spec"]["affinity"]["nodeAffinity"].clone(),
        },
    }
}

fn patch_launcher(now: &mut Launcher, merge: &Value) {
    if merge["status"].get("startTime") == Some(&Value::Null) {
        now.started_at = None;
    }
    if let Some(suspend) = merge["spec"]["suspend"].as_bool() {
        now.suspended = suspend;
    }
    if let Some(ttl) = merge["spec"]["ttlSecondsAfterFinished"].as_u64() {
        now.ttl_secs = u32::try_from(ttl).ok();
    }
    let template = &merge["spec"]["template"];
    now.directives
        .labels
        .extend(texts(&template["metadata"]["labels"]));
    now.directives
        .annotations
        .extend(texts(&template["metadata"]["annotations"]));
    for (key, field) in [
        ("tolerations", &mut now.directives.tolerations),
        ("schedulingGates", &mut now.directives.scheduling_gates),
        ("nodeSelector", &mut now.directives.node_selector),
    ] {
        if let Some(value) = template["spec"].get(key) {
            *field = value.clone();
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().cloned().unwrap_or_default().into_iter();
    entries
        .filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())))
        .collect()
}
