"""What the launcher takes from here; the real module imports torch for other things."""

import logging

from .numa import get_numactl_cmd

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("DeepSpeed")


def set_log_level_from_string(level):
    logger.setLevel(level.upper())


__all__ = ["get_numactl_cmd", "logger", "set_log_level_from_string"]
