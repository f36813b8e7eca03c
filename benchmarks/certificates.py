"""Certificates of untrained models of three sizes: of how many visited pairs what is proved, and how fast.

The models have their initial weights, one seed a case. A pair without a fixed point that can be proved counts
in the total, and the certificate says why.
"""

import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from analysis.certificates.certificate import Certificate, RefusedError, parse_certificate
from analysis.certificates.claims.theorem1 import Theorem1
from analysis.certificates.proofs.theorem1 import CertifySettings
from analysis.certify import certify
from analysis.check_certificate import CheckSettings, check_certificate
from benchmarks.frame import Benchmark, Case, Contender, IncorrectError
from implicit.config.recipes import recipe
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, initial_model, load_run

SIZES = (
    {"d_model": 8, "d_state": 6, "head_size": 4},  # h has 96 entries
    {"d_model": 32, "d_state": 16, "head_size": 16},  # 1,024
    {"d_model": 64, "d_state": 32, "head_size": 16},  # 4,096
)
SEEDS = (0, 1, 2)
SETTINGS = CertifySettings(states=32, sequences=8, length=12)
ONE_PROCESS = CheckSettings(processes=1)


def untrained_run(folder: Path, sizes: dict[str, int], seed: int) -> Run:
    """Store a model with its initial weights, input projections scaled by 0.3, as a finished run.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     untrained_run(Path(folder) / "run", SIZES[0], seed=0).config.sizes["d_model"]
        8
    """
    config = recipe("parity", "implicit-mamba2", seed=seed, **sizes)
    run = RunFolder(folder)
    run.begin(config)
    model = initial_model(config, config.build_task())
    with torch.no_grad():  # as drawn, many iterations do not settle, and nothing is claimed then
        for name, weight in model.named_parameters():
            if name.endswith("in_proj.weight"):
                weight.mul_(0.3)
    run.finish(model)
    return load_run(folder)


def case(folder: Path, sizes: dict[str, int], seed: int, settings: CertifySettings = SETTINGS) -> Case:
    """The certificate of one untrained model: checked, then made and checked again against the clock."""
    run = untrained_run(folder, sizes, seed)
    certificate = certify(run, settings)
    read = parse_certificate(certificate.model_dump(mode="json"))

    def check() -> None:
        try:
            check_certificate(read, run, ONE_PROCESS)
        except RefusedError as refusal:
            raise IncorrectError(str(refusal)) from None

    return Case(
        parameters={**sizes, "entries_of_h": 2 * sizes["d_model"] * sizes["d_state"], "seed": seed},
        check=check,
        contenders=(
            # Balls live in NumPy and FLINT, whose memory no allocator here sees.
            Contender("certify", lambda: certify(run, settings), counts(certificate), allocator=None),
            Contender("check", lambda: check_certificate(read, run, ONE_PROCESS), allocator=None),
        ),
        turns=3,
    )


def counts(certificate: Certificate) -> dict[str, float]:
    """How many pairs each statement is proved of, and log₂ of the median radius of the boxes in h."""
    claim = certificate.only
    assert isinstance(claim, Theorem1)
    ranges = [pair.range for pair in claim.pairs if pair.range is not None]
    radii = [math.log2(box.state_radius) for box in ranges]
    return {**claim.summary, **({"log2_of_radius": statistics.median(radii)} if radii else {})}


def cases() -> Iterable[Case]:
    for sizes in SIZES:
        for seed in SEEDS:
            with TemporaryDirectory() as folder:
                yield case(Path(folder) / "run", sizes, seed)


BENCHMARK = Benchmark(
    "certificates",
    "Certificates of untrained models: what is proved, time to prove and to check",
    cases,
    checked="the independent checker accepts the certificate",
)
