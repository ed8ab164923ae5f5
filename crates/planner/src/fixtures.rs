//! Jobs and worlds for tests, built by sentences: `job("demo").workers(2)`, `world(job)`.

mod perfect_cluster;
mod stopwatch;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

pub use self::stopwatch::growth;
use crate::action::Kind;
use crate::fingerprint::Fingerprint;
use crate::job::{
    Access, Account, AccountRule, CleanUp, End, Gang, HostNames, Job, JobRestart, Launcher,
    LauncherKind, LauncherStart, Lifecycle, Limits, Login, Mpi, Names, Owner, Placement, Provided,
    RestartPolicy, Role, StatefulWorkers, WorkerPods, Workers,
};
use crate::observed::{LauncherEnd, Observed, Pod, PodPhase, Refusal, Slot};
use crate::pod_start::PodStart;
use crate::reach::Reach;
use crate::recorded::{Outcome, Recorded, Verdict};
use crate::render::identity::config_bytes;
use crate::render::worker_pod::{worker_pod, worker_pod_bytes};
use crate::site::Site;
use crate::worker_batch::WorkerNaming;

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
    Job {
        owner: Owner {
            api_version: "kubeflow.org/v2beta1".to_owned(),
            kind: "MPIJob".to_owned(),
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            generation: 1,
            deleting: false,
        },
        names: Names::usual(name),
        mpi: Mpi::OpenMpi,
        slots: 1,
        elastic: false,
        launcher: Launcher {
            role: role(),
            kind: LauncherKind::Job {
                restart: JobRestart::OnFailure,
                ttl_secs: None,
            },
            start: LauncherStart::AtOnce,
            host: None,
        },
        workers: Workers::Pods(WorkerPods {
            count: 0,
            role: Role::default(),
            restart: RestartPolicy::Never,
            drops_bare_args: false,
            access: Access::SiteDefault(login()),
        }),
        lifecycle: Lifecycle {
            suspended: false,
            clean_up: CleanUp::Nothing,
            end: End::WithLauncher(Limits::NONE),
        },
        isolated: false,
        placement: Placement::Anywhere,
        recovery: None,
        gang: Gang::default(),
        queue: None,
        reports_pods: false,
    }
}

fn role() -> Role {
    Role {
        template: json!({"spec": {"containers": [{"name": "main", "image": "pi"}]}}),
        ..Role::default()
    }
}

fn login() -> Login {
    Login {
        gate: true,
        census: true,
        ssh_port: None,
        ssh_mount_path: "/root/.ssh".to_owned(),
        discovery_has_slots: false,
        exec_script: false,
    }
}

/// Words for jobs.
impl Job {
    /// With so many workers of the plainest kind, reached as before.
    pub fn workers(self, count: u32) -> Self {
        self.with(|job| match &mut job.workers {
            Workers::Pods(workers) => (workers.count, workers.role) = (count, role()),
            Workers::StatefulSet(_) => panic!("the job has a StatefulSet"),
        })
    }

    /// With changes.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Held by the user.
    pub fn suspended(self) -> Self {
        self.with(|job| job.lifecycle.suspended = true)
    }

    /// With this clean-up policy.
    pub fn clean(self, clean: CleanUp) -> Self {
        self.with(|job| job.lifecycle.clean_up = clean)
    }

    /// With these limits.
    pub fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        match &mut self.lifecycle.end {
            End::WithLauncher(limits) => change(limits),
            End::OnDeletion => panic!("the job has no limits"),
        }
        self
    }

    /// With the launcher's pod restarted like this.
    pub fn launcher_restarts(self, policy: RestartPolicy) -> Self {
        self.with(|job| match &mut job.launcher.kind {
            LauncherKind::Pod { restart, .. } => *restart = policy,
            LauncherKind::Job { .. } => panic!("the launcher is a Job"),
        })
    }

    /// The workers, where they are pods of ours.
    pub fn worker_pods(&mut self) -> &mut WorkerPods {
        match &mut self.workers {
            Workers::Pods(workers) => workers,
            Workers::StatefulSet(_) => panic!("the job has a StatefulSet"),
        }
    }

    /// The workers' role.
    pub fn worker_role(&mut self) -> &mut Role {
        match &mut self.workers {
            Workers::Pods(workers) => &mut workers.role,
            Workers::StatefulSet(workers) => &mut workers.role,
        }
    }

    /// The settings of an access that muster arranges.
    pub fn login_mut(&mut self) -> &mut Login {
        match &mut self.worker_pods().access {
            Access::SiteDefault(login) | Access::Ssh(login) | Access::Agent(login, _) => login,
            Access::Provided(_) => panic!("the access is the templates' business"),
        }
    }

    /// The account.
    pub fn account_mut(&mut self) -> &mut Account {
        let account = match &mut self.workers {
            Workers::StatefulSet(workers) => Some(&mut workers.account),
            Workers::Pods(workers) => match &mut workers.access {
                Access::Provided(provided) => provided.account.as_mut(),
                Access::SiteDefault(_) | Access::Ssh(_) | Access::Agent(..) => None,
            },
        };
        account.expect("the job has an account")
    }

    /// Whose workers are reached through the agent.
    pub fn by_agent(self) -> Self {
        self.with(|job| {
            let login = job.login_mut().clone();
            job.worker_pods().access = Access::Agent(login, HostNames::Service);
        })
    }

    /// Whose launcher is a pod, whose hosts are called by their pods' names, and which lives and ends
    /// as jobs do whose operator makes all pods itself.
    pub fn of_pods(self) -> Self {
        let job = self.with(|job| {
            job.launcher.kind = LauncherKind::Pod {
                restart: RestartPolicy::Never,
                is_cleaned_up: true,
            };
            let login = Login {
                discovery_has_slots: true,
                exec_script: true,
                ..job.login_mut().clone()
            };
            job.worker_pods().access = Access::Agent(login, HostNames::Pods);
        });
        job.limited(|limits| limits.failed_worker_is_fatal = true)
    }

    /// Whose templates arrange the access, and whose workers end by themselves.
    pub fn provided(self) -> Self {
        let job = self.clean(CleanUp::Notify).with(|job| {
            job.launcher.kind = LauncherKind::Pod {
                restart: RestartPolicy::Never,
                is_cleaned_up: false,
            };
            job.worker_pods().access = Access::Provided(Provided {
                files: BTreeMap::from([("start.sh".to_owned(), "#!/bin/sh\n".to_owned())]),
                sidecar: Some("main".to_owned()),
                selector: BTreeMap::from([("app".to_owned(), job.owner.name.clone())]),
                ports: BTreeMap::from([("mpi".to_owned(), 9999)]),
                startup_limit: "the limit is 60 s".to_owned(),
                account: None,
            });
        });
        job.limited(|limits| limits.deleted_launcher_is_fatal = true)
    }

    /// With an account that may see pods, and go into the workers; its templates name it.
    pub fn with_account(self) -> Self {
        let account = self.own_account();
        self.with(|job| match &mut job.worker_pods().access {
            Access::Provided(provided) => provided.account = Some(account),
            Access::SiteDefault(_) | Access::Ssh(_) | Access::Agent(..) => {
                panic!("nobody needs the account")
            }
        })
    }

    fn own_account(&self) -> Account {
        let see = AccountRule {
            resource: "pods",
            verbs: &["get", "list", "watch"],
            names: None,
        };
        let enter = AccountRule {
            resource: "pods/exec",
            verbs: &["get", "create"],
            names: Some(self.worker_names().collect()),
        };
        Account {
            name: self.names.launcher.clone(),
            rules: vec![see, enter],
        }
    }

    /// Whose workers are a StatefulSet's, reached through the API server, and which outlives its
    /// launcher.
    pub fn of_a_set(self) -> Self {
        self.launcher_waits().with(|job| {
            job.launcher.kind = LauncherKind::Pod {
                restart: RestartPolicy::Never,
                is_cleaned_up: false,
            };
            job.workers = Workers::StatefulSet(StatefulWorkers {
                count: job.worker_count(),
                role: job.worker_role().clone(),
                account: job.own_account(),
            });
            job.lifecycle.end = End::OnDeletion;
        })
    }

    /// Whose launcher waits for its workers.
    pub fn launcher_waits(self) -> Self {
        self.with(|job| job.launcher.start = LauncherStart::WhenWorkersReady)
    }
}

/// A world in which only the job exists, and a record of which Secret will hold its keys.
pub fn world(job: Job) -> Observed {
    let mut world = Observed::alone(job, Site::default(), noon());
    world.nonce = "n0nce".to_owned();
    world.keys_recorded()
}

/// A pod in its first moment.
pub fn pod(name: &str) -> Pod {
    Pod {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labelled: true,
        replica_index: name.rsplit('-').next().and_then(|index| index.parse().ok()),
        created_at: noon(),
        start: PodStart::default(),
        deleting: false,
        ends_by: None,
        stopped: false,
        phase: PodPhase::Pending,
        begun: false,
        ready: false,
        waiting: None,
        reason: String::new(),
        message: String::new(),
        node: String::new(),
        address: String::new(),
        hosts: Fingerprint::default(),
        discovery: Fingerprint::default(),
        told_end: false,
        restarts: 0,
        finished_at: None,
        exit: None,
        recovered: None,
        runs: Vec::new(),
    }
}

/// The pod of worker `index` by itself, as a batch must make it too.
pub fn rendered_worker(observed: &Observed, index: u32) -> Option<serde_json::Value> {
    let (job, site) = (&observed.job, &observed.site);
    let Workers::Pods(workers) = &job.workers else {
        return None;
    };
    let words = WorkerNaming::of(job).words(index);
    let pod = worker_pod(job, site, Reach::of(observed)?, workers, &words);
    Some(pod.body)
}

/// How long the files of the job's ConfigMap are taken to be.
pub fn measured_config_bytes(observed: &Observed) -> Option<usize> {
    let (job, site) = (&observed.job, &observed.site);
    let reach = Reach::of(observed)?;
    Some(config_bytes(job, site, reach, job.worker_count()))
}

/// How long the pod of a worker is taken to be.
pub fn measured_pod_bytes(observed: &Observed) -> usize {
    worker_pod_bytes(&observed.job)
}

/// Words for worlds.
impl Observed {
    /// With changes.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// With the record of its keys, as the plan wants it.
    pub fn keys_recorded(mut self) -> Self {
        self.recorded.keys = crate::plan(&self).status.keys;
        self
    }

    /// After plans were carried out until there was nothing left to do.
    pub fn settled(mut self) -> Self {
        for _ in 0..8 {
            let plan = crate::plan(&self);
            let broken = crate::check::violations(&self, &plan);
            assert!(broken.is_empty(), "a law is broken: {broken:?}");
            let is_recorded = plan.status.keys == self.recorded.keys;
            if plan.steps.is_empty() && is_recorded {
                return self;
            }
            self.carry_out(&plan);
            self.recorded.keys = plan.status.keys;
        }
        panic!("the plans never came to rest: {:?}", crate::plan(&self));
    }

    /// With the status written as the plan says.
    pub fn recorded(mut self) -> Self {
        let status = crate::plan(&self).status;
        self.recorded = Recorded {
            seen: true,
            started_at: status.started_at,
            ran: self.recorded.ran || status.running,
            suspended: status.suspended,
            outcome: status.outcome.filter(|_| !self.job.outlives_launcher()),
            replacements: status.replacements,
            keys: status.keys,
            gang: status.gang,
            history: status.history,
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
}
