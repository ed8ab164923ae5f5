//! Every fixture is lowered and its printed hub job, or its errors, compared with the `.out` file
//! beside it (`MUSTER_UPDATE_GOLDEN=1` writes those). What the API server accepts and refuses in
//! the end-to-end fixtures must be accepted and refused here too.
#![expect(clippy::disallowed_methods, reason = "fixtures are files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dialects::kubeflow_v2beta1::DIALECT;
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

#[test]
fn fixtures_lower_to_their_golden_hub() {
    let update = std::env::var("MUSTER_UPDATE_GOLDEN").is_ok();
    for file in yaml_files(&here("tests/fixtures/kubeflow_v2beta1")) {
        let lowered = match (DIALECT.lower)(&object(&file)) {
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

#[test]
fn what_the_api_server_accepts_is_accepted() {
    for file in yaml_files(&here("../../e2e/fixtures/kubeflow_v2beta1/accepted")) {
        let object = object(&file);
        if !(DIALECT.managed_elsewhere)(&object) {
            let lowered = (DIALECT.lower)(&object);
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
    for file in yaml_files(&here("../../e2e/fixtures/kubeflow_v2beta1/refused")) {
        let source = text(&file);
        assert!(
            source.starts_with("# names: "),
            "{}: no field is named",
            file.display()
        );
        // Some rules are about things that only the API server sees.
        if !source.contains("\n# only: the API server") {
            let lowered = (DIALECT.lower)(&object(&file));
            assert!(lowered.is_err(), "{} was accepted", file.display());
        }
    }
}
