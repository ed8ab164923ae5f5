//! What lint finds, by excerpt.

use super::*;
use crate::yaml;

fn manifest(text: &str) -> Manifest {
    Manifest {
        name: "job.yaml".to_owned(),
        text: text.to_owned(),
        documents: yaml::documents(text),
    }
}

fn shown(text: &str) -> String {
    let manifest = manifest(text);
    as_text(&manifest, &check(&manifest))
}

const GOOD: &str = "\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: pi
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: launcher
            image: img
            command: [mpirun, -np, '4', pi]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: img
";

#[test]
fn a_good_job_has_no_findings() {
    assert_eq!(shown(GOOD), "");
}

#[test]
fn an_unknown_field_is_shown_with_the_name_that_was_meant() {
    let text = GOOD.replace("slotsPerWorker", "slotsPerWoker");
    assert_eq!(
        shown(&text),
        "\
error[UnknownField]: spec.slotsPerWoker is not a field of kubeflow.org/v2beta1 MPIJob
  --> job.yaml:6:3
6 |   slotsPerWoker: 2
  |   ^^^^^^^^^^^^^ did you mean slotsPerWorker?

"
    );
}

#[test]
fn metadata_has_the_fields_of_every_object_and_no_other() {
    let begin = GOOD.find("metadata:\n").expect("it has metadata") + "metadata:\n".len();
    let with = |more: &str| shown(&format!("{}{more}{}", &GOOD[..begin], &GOOD[begin..]));
    assert_eq!(
        with("  labels: {a: b, c: null}\n  annotations: {d: e}\n"),
        ""
    );
    let said = with("  label: {a: b}\n");
    assert!(said.contains("metadata.label is not a field of"), "{said}");
    assert!(said.contains("did you mean labels?"), "{said}");
    let said = with("  team: physics\n");
    assert!(said.contains("belongs in metadata.labels"), "{said}");
    let said = with("  labels: {ranks: 4}\n");
    assert!(
        said.contains("metadata.labels.ranks must be a string, not 4"),
        "{said}"
    );
    assert!(said.contains("write \"4\""), "{said}");
}

#[test]
fn what_only_containers_can_ask_for_is_no_resource_of_a_pod() {
    let with = |limits: &str| {
        let pod = "        spec:\n          containers:";
        let more = format!(
            "        spec:\n          resources: {{limits: {{{limits}}}}}\n          containers:"
        );
        assert!(GOOD.contains(pod), "{GOOD}");
        shown(&GOOD.replace(pod, &more))
    };
    assert_eq!(with("cpu: 1, memory: 1Gi, hugepages-2Mi: 4Mi"), "");
    let said = with("cpu: 1, nvidia.com/gpu: 4");
    assert!(
        said.starts_with("warning[RefusedForPods]: only containers can ask for nvidia.com/gpu"),
        "{said}"
    );
    assert!(
        said.contains("do: move Worker.template.spec.resources into"),
        "{said}"
    );
}

#[test]
fn all_errors_come_at_once_in_the_order_of_lines() {
    let text = GOOD
        .replace("slotsPerWorker: 2", "slotsPerWorker: many")
        .replace("      replicas: 2", "      replicas: 0")
        .replace(
            "image: img\n            command",
            "imag: img\n            command",
        );
    let manifest = manifest(&text);
    let findings = check(&manifest);
    let lines: Vec<_> = findings
        .iter()
        .map(|finding| (finding.mark.unwrap().line, finding.reason))
        .collect();
    assert_eq!(
        lines,
        [(6, "WrongType"), (14, "UnknownField"), (17, "Invalid")],
        "{}",
        as_text(&manifest, &findings)
    );
}

#[test]
fn more_ranks_than_slots_are_doubted() {
    let text = GOOD.replace("'4'", "'16'");
    let said = shown(&text);
    assert!(
        said.starts_with(
            "warning[NotEnoughSlots]: 16 ranks are asked for, but 2 hosts × 2 slots = 4 are there"
        ),
        "{said}"
    );
    assert!(said.contains("job.yaml:15:36"), "{said}");
    assert!(said.contains("slotsPerWorker: 8"), "{said}");
    let meant = text.replace("pi]", "--oversubscribe, pi]");
    assert_eq!(shown(&meant), "");
    let mpich = text.replace(
        "  slotsPerWorker",
        "  mpiImplementation: MPICH\n  slotsPerWorker",
    );
    assert!(shown(&mpich).starts_with("warning[Oversubscribed]"));
}

#[test]
fn fields_of_another_api_are_named_as_such() {
    let text = GOOD.replace(
        "  slotsPerWorker: 2",
        "  worker: {replicas: 3}\n  slotsPerWorker: 2",
    );
    let said = shown(&text);
    assert!(
        said.contains("spec.worker belongs to batch.tensorstack.dev/v1beta1 MPIJob"),
        "{said}"
    );
}

#[test]
fn a_version_that_nobody_knows_is_pointed_at() {
    let said = shown(&GOOD.replace("v2beta1", "v2beta2"));
    assert!(
        said.starts_with("error[UnknownKind]: kubeflow.org/v2beta2 MPIJob"),
        "{said}"
    );
    assert!(said.contains("job.yaml:1:13"), "{said}");
}

#[test]
fn companions_are_left_alone() {
    let text = format!("{GOOD}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\n");
    assert_eq!(shown(&text), "");
}

#[test]
fn malformed_yaml_is_one_finding_with_a_place() {
    let text = "apiVersion: v1\n  kind: [a\n";
    let findings = check(&manifest(text));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].reason, "MalformedYaml");
    assert!(findings[0].mark.is_some());
}

#[test]
fn an_empty_file_is_an_error() {
    assert!(has_errors(&check(&manifest("# nothing\n"))));
}

#[test]
fn m01_a_variable_that_leads_mpirun_elsewhere_is_a_warning() {
    let command = "            command: [mpirun, -np, '4', pi]\n";
    let with = |variable: &str| {
        let env = format!("{command}            env:\n            - {variable}\n");
        GOOD.replace(command, &env)
    };
    let hosts = with("{name: OMPI_MCA_orte_default_hostfile, value: /mine}");
    let text = shown(&hosts);
    let message = "warning[OverridesMuster]: OMPI_MCA_orte_default_hostfile is set in the template and \
                   wins over muster's value";
    assert!(text.starts_with(message), "{text}");
    assert!(text.contains("not in /etc/mpi"), "{text}");
    assert!(!has_errors(&check(&manifest(&hosts))), "the job runs");
    for harmless in [
        "{name: PRTE_MCA_plm_ssh_args, value: -p 2222}",
        "{name: PRTE_MCA_prte_default_hostfile, value: /etc/mpi/hostfile}",
        "{name: HYDRA_HOST_FILE, value: /mine}",
    ] {
        assert_eq!(shown(&with(harmless)), "", "{harmless}");
    }
}

#[test]
fn m07_a_port_that_nobody_says_is_a_warning_on_the_nodes_network() {
    let on_host = GOOD.replace(
        "          containers:\n          - name: worker",
        "          hostNetwork: true\n          containers:\n          - name: worker",
    );
    let text = shown(&on_host);
    assert!(text.starts_with("warning[SshPortUnknown]: "), "{text}");
    assert!(text.contains("set spec.muster.sshPort"), "{text}");
    let said = on_host.replace(
        "spec:\n  slots",
        "spec:\n  muster: {sshPort: 2222}\n  slots",
    );
    assert_eq!(shown(&said), "");
    let told = format!("{on_host}            command: [/usr/sbin/sshd, -De, -p, '2222']\n");
    assert_eq!(shown(&told), "");
}

/// `GOOD` as one item of a list.
fn listed(kind: &str, text: &str) -> String {
    let item: String = text.lines().map(|line| format!("  {line}\n")).collect();
    let item = item.replacen("  apiVersion", "- apiVersion", 1);
    format!("apiVersion: v1\nkind: {kind}\nitems:\n{item}")
}

#[test]
fn m03_the_items_of_a_list_are_checked() {
    for kind in ["List", "MPIJobList"] {
        assert_eq!(shown(&listed(kind, GOOD)), "", "{kind}");
        let bad = listed(kind, &GOOD.replace("slotsPerWorker", "slotsPerWoker"));
        let text = shown(&bad);
        assert!(text.contains("job.yaml:9:5"), "{text}");
        assert!(text.contains("did you mean slotsPerWorker?"), "{text}");
    }
}

#[test]
fn m04_what_the_definition_asks_for_is_checked() {
    let container = "          - name: worker\n            image: img\n";
    for (with, words) in [
        (
            "          - image: img\n",
            "Worker.template.spec.containers[0].name is required",
        ),
        (
            "          - {name: w, image: img, env: [{value: a}]}\n",
            "env[0].name is required",
        ),
        (
            "          - {name: w, image: img, volumeMounts: [{name: a}]}\n",
            "volumeMounts[0].mountPath is required",
        ),
        (
            "          - {name: w, image: img, resources: {limits: {memory: 1Gb}}}\n",
            "limits.memory is not a quantity: the string \"1Gb\"",
        ),
    ] {
        let text = shown(&GOOD.replace(container, with));
        assert!(text.contains(words), "{text}");
        assert_eq!(text.matches("error[").count(), 1, "{text}");
    }
}

#[test]
fn m05_a_fraction_of_a_core_is_said_in_the_words_of_kubernetes() {
    let text = GOOD.replacen(
        "image: img\n            command",
        "image: img\n            resources: {limits: {cpu: 0.5}}\n            command",
        1,
    );
    let text = shown(&text);
    assert!(text.contains("a quantity: write 500m"), "{text}");
}

#[test]
fn m05_the_api_server_may_choose_the_name() {
    assert_eq!(
        shown(&GOOD.replace("  name: pi", "  generateName: pi-")),
        ""
    );
    let text = shown(&GOOD.replace("  name: pi", "  generateName: PI_"));
    assert!(text.contains("metadata.name"), "{text}");
}

#[test]
fn m10_a_misplaced_field_is_told_its_place() {
    let below = GOOD.replacen(
        "          containers:",
        "          env: []\n          containers:",
        1,
    );
    let text = shown(&below);
    let place = "belongs in spec.mpiReplicaSpecs.Launcher.template.spec.containers[]";
    assert!(text.contains(place), "{text}");
    let label = GOOD.replacen(
        "      template:\n",
        "      template:\n        metadata: {app: pi}\n",
        1,
    );
    let text = shown(&label);
    let place = "belongs in spec.mpiReplicaSpecs.Launcher.template.metadata.labels";
    assert!(text.contains(place), "{text}");
    let around = GOOD.replacen(
        "            image: img",
        "            image: img\n            nodeSelector: {}",
        1,
    );
    let text = shown(&around);
    let place = "belongs in spec.mpiReplicaSpecs.Launcher.template.spec\n";
    assert!(text.contains(place), "{text}");
}

#[test]
fn m11_old_versions_are_told_what_to_write() {
    for old in ["v1alpha2", "v1alpha1"] {
        let text = shown(&GOOD.replace("v2beta1", old));
        assert!(text.contains("no operator runs any more"), "{text}");
        assert!(text.contains("do: `muster convert`"), "{text}");
    }
}

#[test]
fn m12_nothing_of_a_hostile_file_is_obeyed_or_repeated_whole() {
    let text = GOOD.replace("slotsPerWorker: 2", "\"a\\eb\": 2");
    assert!(!shown(&text).contains('\u{1b}'));
    let long = "x".repeat(1 << 20);
    let text = shown(&GOOD.replace("slotsPerWorker", &long));
    assert!(text.len() < 4096, "{} bytes", text.len());
    let text = shown(&GOOD.replace("slotsPerWorker: 2", &format!("slotsPerWorker: {long}")));
    assert!(text.len() < 4096, "{} bytes", text.len());
    let text = shown(&GOOD.replace("apiVersion: kubeflow.org/v2beta1", "apiVersion: 1"));
    assert!(text.contains("apiVersion must be a string"), "{text}");
    let text = shown("metadata:\n  name: {{ .Release.Name }}-job\n");
    assert!(text.contains("helm template"), "{text}");
}

fn reasons(text: &str) -> Vec<&'static str> {
    let findings = check(&manifest(text));
    findings.iter().map(|finding| finding.reason).collect()
}

/// `GOOD` with another command for its launcher.
fn launched(command: &str) -> String {
    GOOD.replace("[mpirun, -np, '4', pi]", command)
}

#[test]
fn m06_only_what_mpirun_is_asked_for_counts() {
    for (command, expected) in [
        ("[mpirun, all_reduce_perf, -n, '100']", &[][..]),
        ("[mpirun, -np, '4', all_reduce_perf, -n, '100']", &[]),
        ("[mpirun, --unknown, what, -np, '100', pi]", &[]),
        (
            "[mpirun, --mca, rmaps_base_oversubscribe, '1', -np, '16', pi]",
            &[],
        ),
        ("[mpirun, --map-by, ':OVERSUBSCRIBE', -np, '16', pi]", &[]),
        (
            "[mpirun, -x, A, --mca, btl, tcp, -np, '16', pi]",
            &["NotEnoughSlots"],
        ),
        (
            "[bash, -c, 'cd /x && exec mpirun -np 16 pi']",
            &["NotEnoughSlots"],
        ),
        (
            "[sh, -c, \"A=1 mpirun -x B \\\\\\n -np 16 pi\"]",
            &["NotEnoughSlots"],
        ),
        ("[sh, -c, 'mpirun -np $RANKS pi']", &[]),
        ("[sh, -c, '# mpirun -np 16 pi']", &[]),
        ("[sh, -c, 'mpirun -np 16 a; mpirun -np 16 b']", &[]),
        ("[sh, -c, 'echo mpirun -np 16']", &[]),
    ] {
        assert_eq!(reasons(&launched(command)), expected, "{command}");
    }
    // A shell decides whether it comes to that.
    assert!(!has_errors(&check(&manifest(&launched(
        "[sh, -c, 'mpirun -np 16 pi']"
    )))));
    let variable = launched(
        "[mpirun, -np, '16', pi]\n            env: [{name: OMPI_MCA_rmaps_base_oversubscribe, value: '1'}]",
    );
    assert_eq!(reasons(&variable), [""; 0]);
    let one_more = shown(&launched("[mpirun, -np, '6', pi]"));
    assert!(one_more.contains("runLauncherAsWorker: true"), "{one_more}");
}

#[test]
fn m09_workers_without_a_rank_are_a_warning() {
    let text = shown(&launched("[mpirun, -np, '2', pi]"));
    assert!(
        text.starts_with("warning[IdleWorkers]: 1 of 2 hosts get no rank"),
        "{text}"
    );
    for spread in [
        "[mpirun, -np, '2', -N, '1', pi]",
        "[mpirun, -np, '2', --map-by, node, pi]",
    ] {
        assert_eq!(reasons(&launched(spread)), [""; 0], "{spread}");
    }
}

#[test]
fn m09_a_job_that_runs_otherwise_than_written_is_a_warning() {
    let worker = "          - name: worker\n            image: img\n";
    let with = |more: &str| GOOD.replace(worker, &format!("{worker}{more}"));
    let pod = |more: &str| {
        let begin = "          containers:\n          - name: launcher";
        GOOD.replace(begin, &format!("{more}{begin}"))
    };
    for (text, expected) in [
        (
            pod("          restartPolicy: OnFailure\n"),
            "OverriddenByReplica",
        ),
        (with("            command: [sleep, infinity]\n"), "NoSshd"),
        (
            with("            volumeMounts: [{name: data, mountPath: /data}]\n"),
            "MountWithoutVolume",
        ),
        (
            pod("          securityContext: {runAsUser: 1000}\n"),
            "KeysInRootsHome",
        ),
    ] {
        assert_eq!(reasons(&text), [expected], "{text}");
        assert!(!has_errors(&check(&manifest(&text))), "the job runs");
    }
    let gpus = with("            resources: {limits: {nvidia.com/gpu: 2}}\n");
    assert_eq!(reasons(&gpus), [""; 0], "slots are written");
    let unset = gpus
        .replace("  slotsPerWorker: 2\n", "")
        .replace("'4'", "'2'");
    assert_eq!(reasons(&unset), ["SlotsUnset"]);
    for harmless in [
        pod("          restartPolicy: Never\n"),
        with("            command: [/usr/sbin/sshd, -De]\n"),
        with("            volumeMounts: [{name: mpi-job-config, mountPath: /etc/other}]\n"),
        with("            command: [sleep, infinity]\n").replace(
            "spec:\n  slots",
            "spec:\n  muster: {transport: Agent}\n  slots",
        ),
    ] {
        assert_eq!(reasons(&harmless), [""; 0], "{harmless}");
    }
}

#[test]
fn m09_a_loop_that_waits_for_workers_is_a_warning() {
    let hosts = "while ! (for h in $(cat /etc/mpi/hostfile); do ssh $h true || exit 1; done); do sleep 1; done";
    for script in [
        "until ssh pi-worker-0 hostname; do sleep 1; done; mpirun -np 4 pi",
        "until getent hosts pi-worker-1; do sleep 5; done; mpirun -np 4 pi",
        hosts,
    ] {
        let text = launched(&format!("[sh, -c, \"{script}\"]"));
        assert_eq!(reasons(&text), ["NeedlessWait"], "{script}");
        assert!(!has_errors(&check(&manifest(&text))), "the job runs");
        for gateless in ["gate: 'Off'", "elastic: true"] {
            let muster = format!("  muster: {{{gateless}}}\n  slotsPerWorker");
            let text = text.replace("  slotsPerWorker", &muster);
            assert_eq!(reasons(&text), [""; 0], "{gateless}");
        }
    }
    for harmless in [
        "while read line; do echo $line; done; mpirun -np 4 pi",
        "until test -e /data/ready; do sleep 1; done; mpirun -np 4 pi",
        "# until ssh pi-worker-0 hostname; do sleep 1; done",
    ] {
        let text = launched(&format!("[sh, -c, \"{harmless}\"]"));
        assert_eq!(reasons(&text), [""; 0], "{harmless}");
    }
}

#[test]
fn slots_that_no_worker_has_room_for_are_a_warning() {
    let worker = "          - name: worker\n            image: img\n";
    let with = |limits: &str| {
        GOOD.replace(
            worker,
            &format!("{worker}            resources: {{limits: {{{limits}}}}}\n"),
        )
    };
    let auto = |text: String, ranks: &str| {
        let text = text.replace("slotsPerWorker: 2", "muster: {slotsPerWorker: Auto}");
        text.replace("'4'", ranks)
    };
    let both = |text: String| text.replace("  slots", "  muster: {slotsPerWorker: Auto}\n  slots");
    for (text, reason, words) in [
        (
            with("nvidia.com/gpu: 8"),
            "SlotsDiffer",
            "each worker has 8 accelerators and 2 slots",
        ),
        (with("cpu: 1500m"), "SlotsDiffer", "so its ranks share CPUs"),
        (
            both(with("amd.com/gpu: 8")).replace("'4'", "'16'"),
            "SlotsUnused",
            "slotsPerWorker is 2, but spec.muster.slotsPerWorker makes it 8: a worker has 8 accelerators",
        ),
    ] {
        assert_eq!(reasons(&text), [reason], "{text}");
        assert!(shown(&text).contains(words), "{}", shown(&text));
        assert!(!has_errors(&check(&manifest(&text))), "the job runs");
    }
    for harmless in [
        with("nvidia.com/gpu: 2"),
        with("cpu: 2"),
        with("cpu: 96"),
        auto(with("nvidia.com/gpu: 8"), "'16'"),
        auto(GOOD.to_owned(), "'2'"),
        both(with("cpu: 2")),
        // One process for all of them is a choice.
        with("nvidia.com/gpu: 8")
            .replace("slotsPerWorker: 2", "slotsPerWorker: 1")
            .replace("'4'", "'2'"),
    ] {
        assert_eq!(reasons(&harmless), [""; 0], "{harmless}");
    }
    // What is derived is what mpirun finds.
    let few = auto(with("cpu: 2"), "'5'");
    assert_eq!(reasons(&few), ["NotEnoughSlots"]);
    assert!(
        shown(&few).contains("2 hosts × 2 slots = 4 are there"),
        "{}",
        shown(&few)
    );
}

#[test]
fn a_key_that_is_written_twice_is_a_warning_and_the_last_one_counts() {
    let text = GOOD.replace(
        "  slotsPerWorker: 2\n",
        "  slotsPerWorker: 1\n  slotsPerWorker: 2\n",
    );
    let said = shown(&text);
    assert!(
        said.starts_with("warning[DuplicateKey]: spec.slotsPerWorker is written twice"),
        "{said}"
    );
    assert!(said.contains("job.yaml:7:3"), "{said}");
    assert!(!has_errors(&check(&manifest(&text))));
}

#[test]
fn m04_two_items_with_one_key_are_refused_as_by_the_api_server() {
    let worker = "          - name: worker\n            image: img\n";
    let with = |more: &str| GOOD.replace(worker, &format!("{worker}            {more}\n"));
    for (more, at) in [
        ("env: [{name: A, value: a}, {name: A, value: b}]", "env[1]"),
        (
            "ports: [{containerPort: 1}, {containerPort: 1, protocol: TCP}]",
            "ports[1]",
        ),
    ] {
        let said = shown(&with(more));
        let path = format!("spec.mpiReplicaSpecs.Worker.template.spec.containers[0].{at} has the ");
        assert!(
            said.starts_with(&format!("error[Invalid]: {path}")),
            "{said}"
        );
        assert_eq!(said.matches("error[").count(), 1, "{said}");
    }
    for different in [
        "env: [{name: A, value: x}, {name: B, value: x}]",
        "ports: [{containerPort: 1, protocol: UDP}, {containerPort: 1}]",
    ] {
        assert_eq!(shown(&with(different)), "");
    }
}

#[test]
fn m04_texts_that_no_pattern_of_the_definition_allows_are_refused() {
    let text = "apiVersion: muster.dev/v1alpha1\nkind: OpenMPI\nmetadata: {name: a}\nspec:\n  image: i\n  \
                secret: s\n  runAsUser: root\n";
    let said = shown(text);
    assert!(said.contains("spec.runAsUser must match"), "{said}");
}
