//! Checks the launcher's command, also inside `sh -c`: more ranks than slots, and workers that no rank runs on.
//! Reads the options of mpirun and stops at the program. Reports only what is certain: an option that it does not know
//! ends the reading.

use planner::Job;
use serde_json::Value;

use super::{Finding, Severity, error, text_at};
use crate::yaml::Document;

const CONTAINER: &str = "/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0";
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "mpiexec.hydra", "prterun"];
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "ash"];
const COUNT_FLAGS: [&str; 6] = ["-n", "-np", "--n", "--np", "-c", "-N_total"];
/// Options of mpirun with one word after them, and with two; without leading dashes.
const WITH_ONE: &[&str] = &[
    "H",
    "N",
    "bind-to",
    "envlist",
    "f",
    "genvlist",
    "host",
    "hostfile",
    "hosts",
    "iface",
    "launcher",
    "machinefile",
    "map-by",
    "npernode",
    "output-filename",
    "perhost",
    "ppn",
    "prefix",
    "rank-by",
    "rf",
    "rankfile",
    "timeout",
    "wd",
    "wdir",
    "x",
];
const WITH_TWO: &[&str] = &["env", "genv", "gmca", "mca", "omca", "pmixmca", "prtemca"];
/// Options without a word after them.
const ALONE: &[&str] = &[
    "allow-run-as-root",
    "bynode",
    "byslot",
    "display-map",
    "display-allocation",
    "genvall",
    "l",
    "nolocal",
    "oversubscribe",
    "prepend-rank",
    "print-all-exitcodes",
    "q",
    "quiet",
    "report-bindings",
    "tag-output",
    "timestamp-output",
    "use-hwthread-cpus",
    "v",
    "verbose",
];
/// Options that say how many ranks each host gets: then the last workers are not idle.
const SPREAD: [&str; 7] = [
    "N", "bynode", "map-by", "npernode", "perhost", "ppn", "rankfile",
];
/// Words that may come before the command in a shell.
const BEFORE: [&str; 4] = ["exec", "time", "nohup", "command"];

pub(super) fn check(document: &Document, job: &Job) -> Vec<Finding> {
    let words = words(&document.value);
    let Some(asked) = asked(&words) else {
        return Vec::new();
    };
    let hosts = u64::from(job.worker_count()) + u64::from(job.launcher.host.is_some());
    // A launcher without workers runs its ranks itself, without a limit of slots.
    if hosts == 0 {
        return Vec::new();
    }
    let slots = u64::from(job.slots.max(1));
    if asked.ranks > hosts * slots
        && !asked.oversubscribes
        && !variables_oversubscribe(&document.value)
    {
        return vec![too_many(document, job, &asked, hosts, slots)];
    }
    // Ranks fill one host after the other.
    let used = asked.ranks.div_ceil(slots);
    if asked.ranks > 0 && used < hosts && !asked.spreads && job.mpi.refuses_oversubscription() {
        return vec![idle(document, &asked, hosts, used)];
    }
    Vec::new()
}

/// What mpirun is asked for.
struct Asked {
    ranks: u64,
    oversubscribes: bool,
    spreads: bool,
    /// A shell decides whether it comes to that.
    in_script: bool,
    /// Where the number stands.
    pointer: String,
}

fn asked(words: &[Word]) -> Option<Asked> {
    let first = words.first()?;
    if is_launcher(&first.text) {
        return options(&words[1..], false);
    }
    let program = base(&first.text);
    let is_script = |word: &&Word| word.text.starts_with('-') && word.text.contains('c');
    if !SHELLS.contains(&program) || !words.get(1).as_ref().is_some_and(is_script) {
        return None;
    }
    let script = words.get(2)?;
    let mut found = commands(&script.text).into_iter().filter_map(|command| {
        let place = |text: String| Word {
            text,
            pointer: script.pointer.clone(),
        };
        let command: Vec<Word> = command.into_iter().map(place).collect();
        let begin = command.iter().position(|word| {
            let is_assignment = word.text.split_once('=').is_some_and(|(name, _)| {
                name.bytes()
                    .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
            });
            !is_assignment && !BEFORE.contains(&word.text.as_str())
        })?;
        is_launcher(&command[begin].text).then(|| options(&command[begin + 1..], true))?
    });
    // Several of them may share the hosts, or run one after the other.
    let only = found.next()?;
    found.next().is_none().then_some(only)
}

/// Reads options up to the program.
fn options(words: &[Word], in_script: bool) -> Option<Asked> {
    let (mut ranks, mut oversubscribes, mut spreads) = (None, false, false);
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let Some(option) = word.text.strip_prefix('-') else {
            break;
        };
        let option = option.trim_start_matches('-');
        let values = |count: usize| words.get(at + 1..at + 1 + count);
        let text = |count: usize| -> String {
            let values = values(count).into_iter().flatten();
            values.map(|word| word.text.to_lowercase() + " ").collect()
        };
        spreads |= SPREAD.contains(&option);
        oversubscribes |= option.eq_ignore_ascii_case("oversubscribe");
        at += 1 + if COUNT_FLAGS.contains(&word.text.as_str()) {
            let count = &values(1)?[0];
            ranks = Some((count.text.parse().ok()?, count.pointer.clone()));
            1
        } else if WITH_ONE.contains(&option) {
            oversubscribes |= text(1).contains(":oversubscribe");
            1
        } else if WITH_TWO.contains(&option) {
            let setting = text(2);
            oversubscribes |= setting.contains("oversubscribe") && !setting.ends_with(" 0 ");
            2
        } else if ALONE.contains(&option) {
            0
        } else {
            break;
        };
    }
    let (ranks, pointer) = ranks?;
    Some(Asked {
        ranks,
        oversubscribes,
        spreads,
        in_script,
        pointer,
    })
}

/// The simple commands of a script, as words. A command with a variable or a substitution ends before it.
fn commands(script: &str) -> Vec<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    let mut commands = Vec::new();
    for line in joined.split(['\n', ';', '|', '&']) {
        if line.trim_start().starts_with('#') {
            continue;
        }
        let words = line
            .split_whitespace()
            .take_while(|word| !word.contains(['$', '`', '(', '<', '>']));
        let words = words.map(|word| word.trim_matches(['\'', '"']).to_owned());
        commands.push(words.collect());
    }
    commands
}

/// Variables of the launcher by which Open MPI allows more ranks than slots.
fn variables_oversubscribe(object: &Value) -> bool {
    let variables = object.pointer(&format!("{CONTAINER}/env"));
    let mut variables = variables.and_then(Value::as_array).into_iter().flatten();
    variables.any(|variable| {
        let text = |key: &str| variable[key].as_str().unwrap_or_default().to_lowercase();
        let (name, value) = (text("name"), text("value"));
        let by_name =
            name.contains("oversubscribe") && !["0", "false", "no"].contains(&value.as_str());
        by_name || (name.contains("mapping_policy") && value.contains("oversubscribe"))
    })
}

fn is_launcher(word: &str) -> bool {
    let program = base(word);
    let family = program.split('.').next().unwrap_or_default();
    LAUNCHERS.contains(&program) || LAUNCHERS.contains(&family)
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

fn too_many(document: &Document, job: &Job, asked: &Asked, hosts: u64, slots: u64) -> Finding {
    let (ranks, total) = (asked.ranks, hosts * slots);
    let mut finding = error(
        "NotEnoughSlots",
        format!(
            "{ranks} ranks are asked for, but {hosts} hosts × {slots} slots = {total} are there"
        ),
        document.value_mark(&asked.pointer),
    );
    finding.label = format!("at most {total}");
    finding.advice = format!(
        "set slotsPerWorker: {}, or {} hosts, or {total} ranks; --oversubscribe if this is meant",
        ranks.div_ceil(hosts),
        ranks.div_ceil(slots)
    );
    if job.launcher.host.is_none() && ranks <= (hosts + 1) * slots {
        finding.advice += "; runLauncherAsWorker: true if ranks shall run in the launcher too";
    }
    // The job would be accepted, and only its program knows what its command line means.
    finding.severity = Severity::Warning;
    // Hydra starts more ranks than slots without an error: slow, but not wrong.
    if !job.mpi.refuses_oversubscription() {
        finding.reason = "Oversubscribed";
    }
    if asked.in_script {
        finding.severity = Severity::Warning;
    }
    finding
}

fn idle(document: &Document, asked: &Asked, hosts: u64, used: u64) -> Finding {
    let (ranks, unused) = (asked.ranks, hosts - used);
    Finding {
        severity: Severity::Warning,
        label: format!("{used} of {hosts} hosts are enough for {ranks} ranks"),
        advice: "ask for fewer workers or more ranks, or spread the ranks with --map-by node"
            .to_owned(),
        ..error(
            "IdleWorkers",
            format!("{unused} of {hosts} hosts get no rank"),
            document.value_mark(&asked.pointer),
        )
    }
}

struct Word {
    text: String,
    pointer: String,
}

/// `command` and `args` of the launcher's first container.
fn words(object: &Value) -> Vec<Word> {
    let mut words = Vec::new();
    for list in ["command", "args"] {
        let list = format!("{CONTAINER}/{list}");
        let count = object
            .pointer(&list)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for index in 0..count {
            let pointer = format!("{list}/{index}");
            words.push(Word {
                text: text_at(object, &pointer).to_owned(),
                pointer,
            });
        }
    }
    words
}
