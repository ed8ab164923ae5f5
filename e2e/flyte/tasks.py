"""MPI tasks as Flyte's users write them, and their templates as Flyte's backend gets them.

    python tasks.py TASK IMAGE

writes the template (protobuf) to standard output. Registers nothing and talks to no Flyte.
"""

import sys
from collections import OrderedDict
from pathlib import Path

from flytekit import Resources, task
from flytekit.configuration import ImageConfig, SerializationSettings
from flytekit.tools.translator import get_serializable
from flytekitplugins.kfmpi import CleanPodPolicy, Launcher, MPIJob, RunPolicy, Worker

# The documentation's own task is an example of ours.
sys.path.insert(0, str(Path(__file__).parents[2] / "examples/seeds"))
from mpi_task import mpi_task  # noqa: E402

PI = "/home/mpiuser/pi"


@task(
    task_config=MPIJob(
        worker=Worker(replicas=2),
        launcher=Launcher(
            replicas=1,
            command=["mpirun", "--allow-run-as-root", "-np", "2", "sh", "-c", f"echo said $FLYTE_SAID; exec {PI}"],
        ),
        run_policy=RunPolicy(clean_pod_policy=CleanPodPolicy.RUNNING),
        slots=1,
    ),
    requests=Resources(cpu="100m", mem="64Mi"),
    limits=Resources(cpu="1", mem="256Mi"),
)
def pi() -> None:
    """Estimates pi: the launcher's own words instead of flytekit's."""


@task(
    task_config=MPIJob(
        worker=Worker(replicas=2),
        launcher=Launcher(
            replicas=1,
            command=["mpirun", "--allow-run-as-root", "-np", "2", "sh", "-c", "echo out of data; exit 3"],
        ),
        slots=1,
    ),
    requests=Resources(cpu="100m", mem="64Mi"),
    limits=Resources(cpu="1", mem="256Mi"),
)
def failing() -> None:
    """Ends with code 3 after a last word."""


def template(name: str, image: str) -> bytes:
    found = {"mpi_task": mpi_task, "pi": pi, "failing": failing}[name]
    settings = SerializationSettings(
        project="muster",
        domain="test",
        version="1",
        image_config=ImageConfig.auto(img_name=image),
        env={"FLYTE_SAID": "so"},
    )
    spec = get_serializable(OrderedDict(), settings, found)
    return spec.template.to_flyte_idl().SerializeToString()


if __name__ == "__main__":
    sys.stdout.buffer.write(template(sys.argv[1], sys.argv[2]))
