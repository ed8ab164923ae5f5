//! Fuzz targets: what must hold of everything that reads what others wrote, for any bytes. Each target is a
//! function that panics if its property is broken. The tests run them over small corpora and changes of these;
//! `cargo xtask fuzz` has a coverage-guided fuzzer choose the bytes (`docs/fuzzing.md`).

pub mod admission;
mod api_server;
pub mod dialect;
pub mod edits;
pub mod frames;
pub mod host_list;
pub mod kubexec;
pub mod patch;
pub mod s3;
pub mod schema;
pub mod watch;
pub mod words;
pub mod yaml;

/// Names the target for the coverage-guided fuzzer.
pub const TARGET_VARIABLE: &str = "MUSTER_FUZZ_TARGET";

/// One property of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name, also of the folder of its corpus.
    pub name: &'static str,
    /// What reads the bytes, and what must hold.
    pub about: &'static str,
    /// Panics if it does not hold.
    pub check: fn(&[u8]),
    /// How many changes of each file of its corpus the tests try: fewer where each takes longer.
    pub changes: u32,
}

const fn target(name: &'static str, check: fn(&[u8]), changes: u32, about: &'static str) -> Target {
    Target {
        name,
        about,
        check,
        changes,
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target(
        "v2beta1",
        |bytes| dialect::check("v2beta1", bytes),
        30,
        "a job of any shape is planned and reported within the laws, the same each time, or a field is named",
    ),
    target(
        "v1",
        |bytes| dialect::check("v1", bytes),
        30,
        "the same of Kubeflow's v1",
    ),
    target(
        "t9k",
        |bytes| dialect::check("t9k", bytes),
        30,
        "the same of T9k's jobs",
    ),
    target(
        "bdap",
        |bytes| dialect::check("bdap", bytes),
        30,
        "the same of bdap's jobs",
    ),
    target(
        "openmpi",
        |bytes| dialect::check("openmpi", bytes),
        30,
        "the same of the component openmpi",
    ),
    target(
        "admission",
        admission::check,
        4,
        "what the API server stores of a job means the same as the job, and a refusal names a field",
    ),
    target(
        "host-list",
        host_list::check,
        1000,
        "a list of workers is read back as it was written; any text is a list",
    ),
    target(
        "patch",
        patch::check,
        8,
        "patches of every kind change an object once, or are refused and change nothing",
    ),
    target(
        "schema",
        schema::check,
        10,
        "a stored object satisfies its schema and is stored again unchanged; a refusal names a field",
    ),
    target(
        "watch",
        watch::check,
        40,
        "lists and watches in JSON and protobuf are read the same however they are cut, in bounded memory",
    ),
    target(
        "yaml",
        yaml::check,
        200,
        "people's files become documents that survive being written, with places inside the text",
    ),
    target(
        "kubexec",
        kubexec::check,
        2000,
        "WebSocket frames are the same however they are cut; only a success is exit code 0",
    ),
    target(
        "s3",
        s3::check,
        1000,
        "texts survive being escaped, keys survive being encoded, any answer is read",
    ),
    target(
        "frames",
        frames::check,
        4000,
        "the agent's frames are the same however they are cut and survive being sent again",
    ),
    target(
        "words",
        words::check,
        4000,
        "words of a call of ssh are a call whose command is unchanged, or an error",
    ),
];

/// The target of this name.
pub fn target_of(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
