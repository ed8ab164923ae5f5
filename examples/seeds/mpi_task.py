"""The task of the documentation of Flyte's MPI plugin, word for word, with a signature and imports."""

from flytekit import Resources, task
from flytekitplugins.kfmpi import MPIJob


@task(
    task_config=MPIJob(
        # number of worker to be spawned in the cluster for this job
        num_workers=2,
        # number of launcher replicas to be spawned in the cluster for this job
        # the launcher pod invokes mpirun and communicates with worker pods through MPI
        num_launcher_replicas=1,
        # number of slots per worker used in the hostfile
        # the available slots (GPUs) in each pod
        slots=1,
    ),
    requests=Resources(cpu='1', mem="3000Mi"),
    limits=Resources(cpu='2', mem="6000Mi"),
    retries=3,
    cache=True,
    cache_version="0.5",
)
def mpi_task() -> None:
    # do some work
    pass
