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
fn more_ranks_than_slots_are_refused_for_open_mpi_and_doubted_for_hydra() {
    let text = GOOD.replace("'4'", "'16'");
    let said = shown(&text);
    assert!(
        said.starts_with(
            "error[NotEnoughSlots]: 16 ranks are asked for, but 2 hosts × 2 slots = 4 are there"
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
