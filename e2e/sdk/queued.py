"""Creates an MPIJob for a queue, as users of Kubeflow's training SDK do.

    python queued.py KUBECONFIG NAMESPACE IMAGE NAME QUEUE CPU WORD...

The launcher runs the words; each pod asks for so much CPU.
"""

import sys

from kubeflow.training import (
    KubeflowOrgV1MPIJob,
    KubeflowOrgV1MPIJobSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes.client import V1ObjectMeta, V1ResourceRequirements

from lifecycle import replica


def asking(spec, cpu):
    container = spec.template.spec.containers[0]
    container.resources = V1ResourceRequirements(requests={"cpu": cpu})
    return spec


def main(kubeconfig, namespace, image, name, queue, cpu, *words):
    labels = {"kueue.x-k8s.io/queue-name": queue}
    job = KubeflowOrgV1MPIJob(
        api_version="kubeflow.org/v1",
        kind="MPIJob",
        metadata=V1ObjectMeta(name=name, namespace=namespace, labels=labels),
        spec=KubeflowOrgV1MPIJobSpec(
            slots_per_worker=1,
            run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
            mpi_replica_specs={
                "Launcher": asking(replica(1, image, list(words)), cpu),
                "Worker": asking(replica(2, image, None), cpu),
            },
        ),
    )
    TrainingClient(config_file=kubeconfig, namespace=namespace, job_kind="MPIJob").create_job(job)


if __name__ == "__main__":
    main(*sys.argv[1:])
