"""The weights that training begins with, where those are another run's."""

from pydantic import Field

from implicit.checked_config import CheckedConfig


class InitialWeights(CheckedConfig):
    """Weights of a run with noise, as a configuration holds them; `implicit.training.begin_from` makes one.

    Example:
        >>> InitialWeights(run="runs/compiled-s3", sha256="0" * 64, noise=0.1).noise
        0.1
    """

    run: str = Field(description="the run folder, or the name of a stored run")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of its weights file")
    noise: float = Field(
        default=0.0,
        ge=0,
        description="size of the Gaussian noise that is added, as a share of the norm of each tensor",
    )
