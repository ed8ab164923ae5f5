//! Jobs and worlds for tests, built by sentences: `job("demo").workers(2)`, `world(job)`.

mod perfect_cluster;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use crate::action::Kind;
use crate::job::{
    Account, CleanUp, GangWish, HostNames, Job, LauncherAs, LauncherStart, Mpi, Owner, Policy,
    RestartPolicy, Right, Role, Workers, WorkersAs,
};
use crate::observed::{LauncherEnd, Observed, Pod, PodPhase, Refusal, Slot};
use crate::recorded::{Outcome, Recorded, Verdict};
use crate::site::{Site, Transport};

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
            deleting: false,
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
            ran: self.recorded.ran || status.running,
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
}
