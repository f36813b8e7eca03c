"""What a benchmark ran on: versions, the processor and its cores."""

import os
import platform
from pathlib import Path

from implicit.runs.environment import Environment, describe_environment


def describe_machine() -> Environment:
    """Return the environment of a result with the processor and the number of cores."""
    return {**describe_environment(), "processor": processor(), "cores": os.cpu_count()}


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # only Linux has this file
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
