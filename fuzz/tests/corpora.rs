//! A short and repeatable run of every target: the files of its corpus, and changes of them that a fixed number
//! sequence chooses. Long runs: `cargo xtask fuzz`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use dialects::RESOURCES;
use fuzz::{TARGETS, Target, dialect, target_of};

/// Numbers that look random and are the same in every run.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        const TELLING: [u8; 12] = [
            0, 1, 0xff, b'-', b'@', b'=', b'o', b' ', b'"', b'{', b'\n', b'0',
        ];
        match self.below(2) {
            0 => TELLING[self.below(TELLING.len())],
            _ => u8::try_from(self.below(256)).unwrap(),
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 | 1 => bytes.insert(at, self.byte()),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                3 if at < bytes.len() => bytes[at] = self.byte(),
                4 => self.repeat(bytes, at),
                _ if self.below(4) == 0 => bytes.truncate(at),
                _ => {}
            }
        }
    }

    /// A part once more, elsewhere.
    fn repeat(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let from = self.below(bytes.len() + 1);
        let end = (from + self.below(24)).min(bytes.len());
        let part = bytes[from..end].to_vec();
        bytes.splice(at..at, part);
    }
}

fn corpus(target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let entries = std::fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn run(target: &Target) {
    let files = corpus(target);
    assert!(
        files.len() >= 4,
        "{} has a corpus of {} files",
        target.name,
        files.len()
    );
    let mut sequence = Sequence(0x9e37_79b9_7f4a_7c15);
    for file in files {
        let seed = std::fs::read(&file).unwrap();
        tried(target, &seed);
        for _ in 0..target.changes {
            let mut bytes = seed.clone();
            sequence.change(&mut bytes);
            tried(target, &bytes);
        }
    }
}

fn tried(target: &Target, bytes: &[u8]) {
    let result = catch_unwind(AssertUnwindSafe(|| (target.check)(bytes)));
    if result.is_err() {
        panic!(
            "{} is broken by {:?}",
            target.name,
            String::from_utf8_lossy(bytes)
        );
    }
}

macro_rules! runs {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            run(target_of($name).unwrap());
        })*

        #[test]
        fn every_target_runs() {
            let run = [$($name),*];
            assert!(TARGETS.iter().map(|target| target.name).eq(run));
        }
    };
}

runs! {
    jobs_of_v2beta1: "v2beta1",
    jobs_of_v1: "v1",
    jobs_of_t9k: "t9k",
    jobs_of_bdap: "bdap",
    jobs_of_openmpi: "openmpi",
    what_the_api_server_stores: "admission",
    lists_of_workers: "host-list",
    patches: "patch",
    schemas: "schema",
    lists_and_watches: "watch",
    files_of_people: "yaml",
    web_sockets: "kubexec",
    answers_of_stores: "s3",
    frames_of_the_agent: "frames",
    words_of_ssh: "words",
}

/// Otherwise nearly every input would be refused for the same reason.
#[test]
fn every_base_is_accepted() {
    for row in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let base = dialect::base(row.name).unwrap_or_else(|| panic!("{} has no base", row.name));
        (row.lower)(&base).unwrap_or_else(|errors| panic!("{}: {errors:?}", row.name));
    }
}

/// Every field of a dialect with its sample, on top of the base: they are many, and the list knows them.
#[test]
fn every_field_of_every_dialect() {
    for row in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let (target, admission) = (
            target_of(row.name).unwrap(),
            target_of("admission").unwrap(),
        );
        let fields = row.fields.iter().copied().flatten();
        for field in fields.filter(|field| field.handling.is_some()) {
            let edit = format!("/{} {}", fuzz::edits::pointer_of(field.path), field.sample);
            tried(target, edit.as_bytes());
            tried(admission, format!("{}\n{edit}", row.name).as_bytes());
        }
    }
}
