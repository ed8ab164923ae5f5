//! Every fixture is lowered and its printed hub job, or its errors, compared with the `.out` file
//! beside it (`MUSTER_UPDATE_GOLDEN=1` writes those). What the API server accepts and refuses in
//! the end-to-end fixtures must be accepted and refused here too.
#![expect(clippy::disallowed_methods, reason = "fixtures are files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dialects::{Dialect, bdap_v1, kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1};
use planner::Job;
use planner::job::Role;
use serde_json::{Value, json};

fn here(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of fixtures exists");
    let paths = entries.map(|entry| entry.expect("a fixture can be listed").path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures in {}", folder.display());
    files
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn object(path: &Path) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn printed(job: &Job) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(out, "{name:18} {value}").expect("a string takes every line");
    };
    let owner = &job.owner;
    line(
        "owner",
        format!(
            "{} {} {}/{}",
            owner.api_version, owner.kind, owner.namespace, owner.name
        ),
    );
    line(
        "uid, generation",
        format!("{} {}", owner.uid, owner.generation),
    );
    line("mpi, slots", format!("{:?} {}", job.mpi, job.slots));
    line("launcher is host", job.launcher_is_host.to_string());
    line("launcher start", format!("{:?}", job.launcher_start));
    line("ssh mount path", job.ssh_mount_path.clone());
    line("elastic", job.elastic.to_string());
    line("clean up", format!("{:?}", job.policy.clean));
    line(
        "ttl, deadline",
        format!("{:?} {:?}", job.policy.ttl_secs, job.policy.deadline_secs),
    );
    line("backoff limit", format!("{:?}", job.policy.backoff_limit));
    line("suspended", job.policy.suspended.to_string());
    let gang = &job.gang;
    line(
        "gang members",
        format!("{:?} {:?}", gang.min_members, gang.schedule_timeout_secs),
    );
    line(
        "gang queue",
        format!("{:?} priority {:?}", gang.queue, gang.priority_class),
    );
    line("gang resources", json!(gang.min_resources).to_string());
    line("launcher", role(&job.launcher));
    match &job.workers {
        Some(workers) => line(
            "workers",
            format!("{} × {}", workers.count, role(&workers.role)),
        ),
        None => line("workers", "none".to_owned()),
    }
    out
}

fn role(role: &Role) -> String {
    format!("restart {}\n{:#}", role.restart.as_str(), role.template)
}

/// Facts that are the same in every job of v2beta1.
fn facts(job: &Job) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(out, "{name:18} {value}").expect("a string takes every line");
    };
    let (policy, labels) = (&job.policy, |role: &Role| format!("{:?}", role.labels));
    line("launcher is a", format!("{:?}", job.launcher_as));
    line("hosts", format!("by {:?}", job.host_names));
    line("transport", format!("{:?}", job.transport));
    line("expires", format!("{:?}", policy.expires_secs));
    line(
        "covers, fatal",
        format!(
            "{} {}",
            policy.clean_covers_launcher, policy.failed_worker_is_fatal
        ),
    );
    line("launcher labels", labels(&job.launcher));
    if let Some(workers) = &job.workers {
        line("worker labels", labels(&workers.role));
        line("worker restart", format!("{:?}", workers.role.restart));
        line("worker container", format!("{:?}", workers.role.container));
        line("drops bare args", workers.drops_bare_args.to_string());
    }
    line("launcher restart", format!("{:?}", job.launcher.restart));
    out
}

#[test]
fn fixtures_lower_to_their_golden_hub() {
    compare("kubeflow_v2beta1", &kubeflow_v2beta1::DIALECT, printed);
}

#[test]
fn fixtures_of_v1_lower_to_their_golden_hub() {
    let all = |job: &Job| facts(job) + &printed(job);
    compare("kubeflow_v1", &kubeflow_v1::DIALECT, all);
}

#[test]
fn fixtures_of_t9k_lower_to_their_golden_hub() {
    let all = |job: &Job| facts(job) + &printed(job);
    compare("t9k_v1beta1", &t9k_v1beta1::DIALECT, all);
}

fn compare(folder: &str, dialect: &Dialect, printed: impl Fn(&Job) -> String) {
    let update = std::env::var("MUSTER_UPDATE_GOLDEN").is_ok();
    for file in yaml_files(&here("tests/fixtures").join(folder)) {
        let lowered = match (dialect.lower)(&object(&file)) {
            Ok(job) => printed(&job),
            Err(errors) => errors.iter().map(|error| format!("{error}\n")).collect(),
        };
        let golden = file.with_extension("out");
        if update {
            std::fs::write(&golden, &lowered).expect("the golden file can be written");
        }
        assert_eq!(lowered, text(&golden), "{}", file.display());
    }
}

/// Every dialect whose fixtures the API server judges too.
const JUDGED: [(&str, Dialect); 5] = [
    ("kubeflow_v2beta1", kubeflow_v2beta1::DIALECT),
    ("kubeflow_v1", kubeflow_v1::DIALECT),
    ("t9k_v1beta1", t9k_v1beta1::DIALECT),
    ("bdap_v1", bdap_v1::DIALECT),
    ("openmpi_v1alpha1", openmpi_v1alpha1::DIALECT),
];

fn judged(kind: &str) -> Vec<(Dialect, PathBuf)> {
    let files = |(folder, dialect): (&str, Dialect)| {
        let folder = here("../../e2e/fixtures").join(folder).join(kind);
        let files = yaml_files(&folder).into_iter();
        files.map(move |file| (dialect, file)).collect::<Vec<_>>()
    };
    JUDGED.into_iter().flat_map(files).collect()
}

#[test]
fn what_the_api_server_accepts_is_accepted() {
    for (dialect, file) in judged("accepted") {
        let object = object(&file);
        if !(dialect.managed_elsewhere)(&object) {
            let lowered = (dialect.lower)(&object);
            assert!(
                lowered.is_ok(),
                "{}: {:?}",
                file.display(),
                lowered.unwrap_err()
            );
        }
    }
}

#[test]
fn what_the_api_server_refuses_is_refused() {
    for (dialect, file) in judged("refused") {
        let source = text(&file);
        assert!(
            source.starts_with("# names: "),
            "{}: no field is named",
            file.display()
        );
        // Some rules are about things that only the API server sees.
        if !source.contains("\n# only: the API server") {
            let lowered = (dialect.lower)(&object(&file));
            assert!(lowered.is_err(), "{} was accepted", file.display());
        }
    }
}
