"""The life of an MPIJob as users of Kubeflow's training SDK drive it.

    python lifecycle.py KUBECONFIG NAMESPACE IMAGE

Every call of the SDK that takes MPIJobs is made, on a real cluster; what it returns is compared with
what its documentation promises. Ends with 0 and a last line `done` if all of it holds.
"""

import sys
import time

from kubeflow.training import (
    KubeflowOrgV1MPIJob,
    KubeflowOrgV1MPIJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes.client import (
    V1Container,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
)

NAME = "sdk.pi"
PATIENCE = 120


def replica(count, image, command):
    container = V1Container(name="mpi", image=image, command=command)
    template = V1PodTemplateSpec(spec=V1PodSpec(containers=[container]))
    return KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy="Never", template=template)


def mpijob(namespace, image, suspend):
    # Long enough to be seen running by a client that asks once a second.
    words = "sleep 6; exec mpirun --allow-run-as-root -np 2 /home/mpiuser/pi"
    return KubeflowOrgV1MPIJob(
        api_version="kubeflow.org/v1",
        kind="MPIJob",
        metadata=V1ObjectMeta(name=NAME, namespace=namespace),
        spec=KubeflowOrgV1MPIJobSpec(
            slots_per_worker=1,
            run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None", suspend=suspend),
            mpi_replica_specs={
                "Launcher": replica(1, image, ["sh", "-c", words]),
                "Worker": replica(2, image, None),
            },
        ),
    )


def check(holds, what):
    if not holds:
        raise SystemExit(f"not so: {what}")
    print(f"ok: {what}", flush=True)


def until(look, what):
    end = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > end:
            raise SystemExit(f"waited {PATIENCE} s in vain: {what}")
        time.sleep(0.5)
    print(f"ok: {what}", flush=True)


def reached(client, condition):
    """Also fails when the job has failed."""
    client.wait_for_job_conditions(
        NAME,
        expected_conditions={condition},
        wait_timeout=PATIENCE,
        polling_interval=1,
        timeout=30,
    )
    print(f"ok: the SDK has seen {condition}", flush=True)


def main(kubeconfig, namespace, image):
    client = TrainingClient(config_file=kubeconfig, namespace=namespace, job_kind="MPIJob")

    client.create_job(mpijob(namespace, image, suspend=False))
    reached(client, "Created")
    check(NAME in [job.metadata.name for job in client.list_jobs()], "list_jobs has the job")
    reached(client, "Running")

    client.update_job(mpijob(namespace, image, suspend=True), NAME)
    until(lambda: not client.get_job_pods(NAME), "a suspended job has no pods")
    check(not client.is_job_running(NAME), "a suspended job does not run")
    client.update_job(mpijob(namespace, image, suspend=False), NAME)
    reached(client, "Running")

    names = sorted(client.get_job_pod_names(NAME))
    wanted = [f"{NAME}-launcher", f"{NAME}-worker-0", f"{NAME}-worker-1"]
    check(names == wanted, f"get_job_pod_names gives {names}")
    masters = client.get_job_pod_names(NAME, is_master=True)
    check(masters == [f"{NAME}-launcher"], f"the master is {masters}")
    second = client.get_job_pod_names(NAME, replica_type="worker", replica_index=1)
    check(second == [f"{NAME}-worker-1"], f"the second worker is {second}")

    reached(client, "Succeeded")
    logs, events = client.get_job_logs(NAME, verbose=True)
    check(list(logs) == [f"{NAME}-launcher"], f"get_job_logs gives logs of {list(logs)}")
    log = logs[f"{NAME}-launcher"]
    check("pi is approximately 3.14" in log, "the launcher's log has the result")
    check("Workers: 2" in log, "two ranks ran")
    check(f"mpijob/{NAME}" in events, f"there are events about {list(events)}")
    _, worker_events = client.get_job_logs(NAME, is_master=False, replica_type="worker", verbose=True)
    check(f"pod/{NAME}-worker-0" in worker_events, f"there are events about {list(worker_events)}")

    # As the SDK's own end-to-end test judges a job that is over.
    conditions = {c.type: c.status for c in client.get_job_conditions(NAME)}
    check(conditions.get("Created") == "True", f"conditions are {conditions}")
    check(conditions.get("Succeeded") == "True", "it has succeeded")
    for other in ["Running", "Restarting", "Failed"]:
        check(conditions.get(other) != "True", f"{other} is not true")
    check(client.is_job_created(NAME) and client.is_job_succeeded(NAME), "is_job_… agree")
    check(not client.is_job_failed(NAME) and not client.is_job_restarting(NAME), "none failed")

    client.delete_job(NAME)
    until(lambda: not client.list_jobs(), "delete_job removes the job")
    until(lambda: not client.core_api.list_namespaced_pod(namespace).items, "and its pods")
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
