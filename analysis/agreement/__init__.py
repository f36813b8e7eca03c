"""Do both modes of evaluation reach the same fixed points? ``python -m analysis.agreement RUN``."""

from analysis.agreement.measurement import (
    ANALYSIS,
    AgreementAnalysis,
    AgreementSettings,
    analyse,
    main,
    tables,
)

__all__ = ["ANALYSIS", "AgreementAnalysis", "AgreementSettings", "analyse", "main", "tables"]
