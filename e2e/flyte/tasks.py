"""MPI tasks as Flyte's users write them, and their templates as Flyte's backend gets them.

    python tasks.py TASK IMAGE

writes the template (protobuf) to standard output. Registers nothing and talks to no Flyte.
"""

import sys
from collections import OrderedDict

from flytekit import Resources, task
from flytekit.configuration import ImageConfig, SerializationSettings
from flytekit.tools.translator import get_serializable
from flytekitplugins.kfmpi import CleanPodPolicy, Launcher, MPIJob, RunPolicy, Worker

PI = "/home/mpiuser/pi"


@task(
    task_config=MPIJob(
        num_workers=2,
        num_launcher_replicas=1,
        slots=1,
    ),
    requests=Resources(cpu="1", mem="3000Mi"),
    limits=Resources(cpu="2", mem="6000Mi"),
    retries=3,
    cache=True,
    cache_version="0.5",
)
def documented() -> None:
    """As the documentation of the plugin has it."""


@task(
    task_config=MPIJob(
        worker=Worker(replicas=2),
        launcher=Launcher(
            replicas=1, command=["mpirun", "--allow-run-as-root", "-np", "2", PI, "1000000"]
        ),
        run_policy=RunPolicy(clean_pod_policy=CleanPodPolicy.RUNNING),
        slots=1,
    ),
    requests=Resources(cpu="100m", mem="64Mi"),
    limits=Resources(cpu="1", mem="256Mi"),
    environment={"GREETING": "hello"},
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
)
def failing() -> None:
    """Ends with code 3 after a last word."""


def template(name: str, image: str) -> bytes:
    found = {"documented": documented, "pi": pi, "failing": failing}[name]
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
