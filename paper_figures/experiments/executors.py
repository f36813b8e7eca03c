"""Where workers run: in this process, in processes of this machine, or as jobs of a SLURM cluster.

Processes and jobs are started by submitit. It passes a worker to them as a pickle of its own; what they find
goes through the store, and no result is unpickled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from automata.errors import InputError, unknown_name
from paper_figures.experiments.work import Worker

CLUSTERS = {"local": "processes on this machine", "slurm": "jobs of a SLURM cluster, submitted from here"}
_SHARED = ("timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node", "nodes")
"""Parameters that submitit knows on every cluster; all others are those of SLURM."""
_A_YEAR = 365 * 24 * 60
_A_DAY = 24 * 60


class Job(Protocol):
    """A worker that was started."""

    def done(self) -> bool:
        """Return whether it ended, in whatever way."""

    def cancel(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Executor:
    """How many workers there are, and where.

    Attributes:
        jobs: number of workers; one on this machine works in this process, without submitit.
        cluster: one of `CLUSTERS`.
        parameters: of a SLURM job, such as ``{"partition": "cpu", "timeout_min": 600}``.

    Raises:
        InputError: for fewer than one job, an unknown cluster, parameters without a cluster that takes them,
            or a missing submitit.

    Example:
        >>> Executor(jobs=1).in_process
        True
        >>> Executor(jobs=0)
        Traceback (most recent call last):
        automata.errors.InputError: jobs is 0; give at least 1
        >>> Executor(jobs=2, cluster="slrum")
        Traceback (most recent call last):
        automata.errors.InputError: cluster 'slrum' is unknown; did you mean 'slurm'? Known: local, slurm
    """

    jobs: int = 1
    cluster: str = "local"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"jobs is {self.jobs}; give at least 1")
        if self.cluster not in CLUSTERS:
            raise unknown_name("cluster", self.cluster, CLUSTERS)
        if self.parameters and self.cluster != "slurm":
            raise InputError(
                f"slurm is {next(iter(self.parameters))}=…, but cluster is {self.cluster}; "
                "give --cluster slurm"
            )
        if not self.in_process and find_spec("submitit") is None:
            raise InputError(
                f"jobs is {self.jobs} and cluster is {self.cluster}, which takes submitit; install it with "
                "pip install 'implicit-ssm[cluster]', or give --jobs 1 --cluster local"
            )

    @property
    def in_process(self) -> bool:
        """Whether the one worker is this process."""
        return self.cluster == "local" and self.jobs == 1

    def check(self) -> None:
        """Refuse what this machine or submitit does not know, before anything is begun.

        Raises:
            InputError: for a parameter that SLURM does not have, or a machine without SLURM.
        """
        if not self.in_process:
            with TemporaryDirectory() as folder:
                self._submitit(Path(folder))

    def start(self, worker: Worker, logs: Path) -> Sequence[Job]:
        """Start the workers as processes or jobs, which write their logs into a folder.

        Raises:
            InputError: as `check`.
        """
        executor = self._submitit(logs)
        if self.cluster == "local":
            return [executor.submit(worker) for _ in range(self.jobs)]
        with executor.batch():  # one array of jobs
            return [executor.submit(worker) for _ in range(self.jobs)]

    def _submitit(self, logs: Path) -> Any:
        import submitit

        parameters = {
            name if name in _SHARED else f"slurm_{name}": value for name, value in self.parameters.items()
        }
        if not {"timeout_min", "slurm_time"} & set(parameters):
            parameters["timeout_min"] = _A_YEAR if self.cluster == "local" else _A_DAY
        try:
            executor = submitit.AutoExecutor(folder=logs, cluster=self.cluster)
            executor.update_parameters(name="implicit-ssm", **parameters)
        except RuntimeError:
            raise InputError(
                "cluster is slurm, but this machine has no srun; submit from a machine of the cluster, "
                "or give --cluster local"
            ) from None
        except (NameError, ValueError, TypeError, AssertionError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"slurm has a bad parameter: {reason}; give another") from None
        return executor


def parse_parameters(texts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of ``KEY=VALUE`` texts, numbers as numbers where they are written as given.

    Raises:
        InputError: for a text without a key or a value.

    Example:
        >>> parse_parameters(["account=00812", "timeout_min=600", "mem_gb=7.5"])
        {'account': '00812', 'timeout_min': 600, 'mem_gb': 7.5}
        >>> parse_parameters(["partition"])
        Traceback (most recent call last):
        automata.errors.InputError: slurm is 'partition'; give KEY=VALUE, such as partition=cpu
    """
    parameters = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not key.isidentifier() or not value:
            raise InputError(f"slurm is {text!r}; give KEY=VALUE, such as partition=cpu")
        number = _number(value)
        parameters[key] = number if key in _SHARED or str(number) == value else value
    return parameters


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
