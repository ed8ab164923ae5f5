//! Every fixture is lowered and its printed hub job, or its errors, compared with the `.out` file
//! beside it (`MUSTER_UPDATE_GOLDEN=1` writes those). What the API server accepts and refuses in
//! the end-to-end fixtures must be accepted and refused here too.
#![expect(clippy::disallowed_methods, reason = "fixtures are files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dialects::{Dialect, bdap_v1, kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1};
use planner::Job;
use planner::job::{Access, Launcher, Role, StatefulWorkers, WorkerPods, Workers};
use serde_json::Value;

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

/// Everything that the hub knows of a job, one part per line. The patterns name every part with a
/// template, so that a new field cannot be forgotten here.
fn printed(job: &Job) -> String {
    let Job {
        owner,
        names,
        mpi,
        slots,
        elastic,
        launcher,
        workers,
        lifecycle,
        isolated,
        placement,
        recovery,
        gang,
        queue,
        reports_pods,
    } = job;
    let Launcher {
        role: launcher,
        kind,
        start,
        host,
    } = launcher;
    let mut out = format!(
        "\
{owner:?}
{names:?}
{mpi:?} slots {slots} elastic {elastic} isolated {isolated} placement {placement:?} reports pods {reports_pods}
{lifecycle:?}
{gang:?}
launcher {kind:?} {start:?} host {host:?}
"
    );
    if let Some(recovery) = recovery {
        out += &format!("{recovery:?}\n");
    }
    if let Some(queue) = queue {
        out += &format!("{queue:?}\n");
    }
    out += &role(launcher);
    match workers {
        Workers::Pods(WorkerPods {
            count,
            role: worker,
            restart,
            drops_bare_args,
            access,
        }) => {
            out += &reached(access);
            out += &format!("{count} pods {restart:?} drop bare args {drops_bare_args}\n");
            out += &role(worker);
        }
        Workers::StatefulSet(StatefulWorkers {
            count,
            role: worker,
            account,
        }) => {
            out += &format!("{account:?}\n{count} of a StatefulSet\n");
            out += &role(worker);
        }
    }
    out
}

fn role(role: &Role) -> String {
    let Role {
        template,
        labels,
        container,
    } = role;
    format!("labels {labels:?} container {container:?}\n{template:#}\n")
}

/// Of long files only the length.
fn reached(access: &Access) -> String {
    let mut out = String::new();
    let mut access = access.clone();
    if let Access::Provided(provided) = &mut access {
        for (name, text) in std::mem::take(&mut provided.files) {
            let shown = match text.len() {
                length @ 500.. => format!("{length} bytes"),
                _ => format!("{text:?}"),
            };
            writeln!(out, "file {name:13} {shown}").expect("a string takes every line");
        }
    }
    out + &format!("{access:?}\n")
}

#[test]
fn fixtures_lower_to_their_golden_hub() {
    let update = std::env::var("MUSTER_UPDATE_GOLDEN").is_ok();
    for (folder, dialect) in DIALECTS {
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
}

/// Workers' pods are made from one body, into which the words are put that differ.
#[test]
fn c03_the_pods_of_every_fixture_are_those_that_are_rendered_one_by_one() {
    let mut pods = 0;
    for (folder, dialect) in DIALECTS {
        for file in yaml_files(&here("tests/fixtures").join(folder)) {
            let Ok(mut job) = (dialect.lower)(&object(&file)) else {
                continue;
            };
            job.lifecycle.suspended = false;
            let mut world = planner::fixtures::world(job);
            world.site.agent_image = Some("muster-agent".to_owned());
            let actions = planner::plan(&world).steps.into_iter().flatten();
            for action in actions {
                let planner::Action::CreateWorkers(batch) = &action else {
                    continue;
                };
                for (index, made) in batch.indices.iter().zip(action.objects()) {
                    let rendered = planner::fixtures::rendered_worker(&world, *index);
                    assert_eq!(Some(made.body), rendered, "{}", file.display());
                    pods += 1;
                }
            }
        }
    }
    assert!(pods > 20, "{pods} pods in all fixtures");
}

/// Every dialect, by the folder of its fixtures.
const DIALECTS: [(&str, Dialect); 5] = [
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
    DIALECTS.into_iter().flat_map(files).collect()
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
