"""Is the state transition non-linear and non-diagonal? ``python -m analysis.jacobian RUN``."""

from analysis.jacobian.measurement import (
    ANALYSIS,
    JacobianAnalysis,
    JacobianSettings,
    Spectrum,
    analyse,
    main,
    tables,
)

__all__ = ["ANALYSIS", "JacobianAnalysis", "JacobianSettings", "Spectrum", "analyse", "main", "tables"]
