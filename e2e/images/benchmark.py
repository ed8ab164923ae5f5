"""Stands for a training program: says how it was called, and becomes pi, which says where it ran."""

import os
import sys

if os.environ.get("OMPI_COMM_WORLD_RANK") == "0":
    print("called as", *sys.argv, flush=True)
    for name in ("NCCL_DEBUG", "FLYTE_INTERNAL_EXECUTION_ID"):
        print(f"{name}={os.environ.get(name)}", flush=True)
os.execv("/home/mpiuser/pi", ["pi"])
