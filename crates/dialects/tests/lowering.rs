//! Every fixture is lowered and its printed hub job, or its errors, compared with the `.out` file
//! beside it (`MUSTER_UPDATE_GOLDEN=1` writes those). What the API server accepts and refuses in
//! the end-to-end fixtures must be accepted and refused here too.
#![expect(clippy::disallowed_methods, reason = "fixtures are files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dialects::{Dialect, bdap_v1, kubeflow_v1, kubeflow_v2beta1, openmpi_v1alpha1, t9k_v1beta1};
use planner::Job;
use planner::job::{Bootstrap, GangWish, Owner, Policy, Role, Workers};
use serde_json::{Value, json};

const WRITES: &str = "a string takes every line";

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

/// Everything that the hub knows of a job, one fact per line. The patterns name every field, so that a new
/// one cannot be forgotten here.
fn printed(job: &Job) -> String {
    let Job {
        owner,
        mpi,
        slots,
        launcher,
        workers,
        workers_as,
        launcher_as,
        launcher_is_host,
        launcher_is_indexed,
        host_names,
        discovery_tells_slots,
        exec_script,
        launcher_start,
        transport,
        gate,
        ssh_port,
        census,
        ssh_mount_path,
        elastic,
        policy,
        gang_scheduler,
        gang,
        tells_of_pods,
        outlives_launcher,
        account,
        bootstrap,
    } = job;
    let mut out = owner_facts(owner);
    out += &format!(
        "\
mpi, slots         {mpi:?} {slots}
launcher is a      {launcher_as:?} indexed {launcher_is_indexed}
launcher is host   {launcher_is_host}
launcher start     {launcher_start:?}
launcher outlived  {outlives_launcher}
workers are        {workers_as:?}
transport          {transport:?} port {ssh_port:?} keys {ssh_mount_path:?}
gate, census       {gate} {census}
host names         {host_names:?}
elastic            {elastic} tells slots {discovery_tells_slots}
exec script        {exec_script}
tells of pods      {tells_of_pods}
account            {account:?}
gang scheduler     {gang_scheduler:?}
"
    );
    out += &policy_and_gang(policy, gang);
    if let Some(bootstrap) = bootstrap {
        out += &files(bootstrap);
    }
    out += &role("launcher", launcher);
    match workers {
        Some(Workers {
            count,
            role: worker,
            drops_bare_args,
        }) => {
            let name = format!("{count} workers, drop bare args {drops_bare_args},");
            out += &role(&name, worker);
        }
        None => out += "no workers\n",
    }
    out
}

fn owner_facts(owner: &Owner) -> String {
    let Owner {
        api_version,
        kind,
        namespace,
        name,
        uid,
        generation,
        deleting,
    } = owner;
    format!(
        "\
owner              {api_version} {kind} {namespace}/{name}
uid, generation    {uid} {generation} deleting {deleting}
"
    )
}

fn policy_and_gang(policy: &Policy, gang: &GangWish) -> String {
    let Policy {
        clean,
        clean_covers_launcher,
        failed_worker_is_fatal,
        ttl_secs,
        expires_secs,
        deadline_secs,
        startup_secs,
        backoff_limit,
        suspended,
    } = policy;
    let GangWish {
        min_members,
        queue,
        min_resources,
        priority_class,
        priority,
        schedule_timeout_secs,
    } = gang;
    let min_resources = json!(min_resources);
    format!(
        "\
clean up           {clean:?} covers launcher {clean_covers_launcher}
worker is fatal    {failed_worker_is_fatal}
ttl, expires       {ttl_secs:?} {expires_secs:?}
deadline, startup  {deadline_secs:?} {startup_secs:?}
backoff limit      {backoff_limit:?}
suspended          {suspended}
gang members       {min_members:?} {schedule_timeout_secs:?}
gang queue         {queue:?} priority {priority_class:?} {priority:?}
gang resources     {min_resources}
"
    )
}

/// Of long files only the length.
fn files(bootstrap: &Bootstrap) -> String {
    let Bootstrap {
        files,
        attendant,
        service_ports,
        init_secs,
    } = bootstrap;
    let mut out = String::new();
    for (name, text) in files {
        let shown = match text.len() {
            length @ 500.. => format!("{length} bytes"),
            _ => format!("{text:?}"),
        };
        writeln!(out, "file {name:13} {shown}").expect(WRITES);
    }
    writeln!(
        out,
        "bootstrap          {attendant:?} {service_ports:?} {init_secs}"
    )
    .expect(WRITES);
    out
}

fn role(name: &str, role: &Role) -> String {
    let Role {
        template,
        restart,
        labels,
        container,
    } = role;
    format!("{name} {restart:?} labels {labels:?} container {container:?}\n{template:#}\n")
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
