"""Which automaton did a model learn? ``python -m analysis.extraction RUN``."""

from analysis.extraction.measurement import (
    ANALYSIS,
    Difference,
    ExtractionAnalysis,
    ExtractionSettings,
    analyse,
    main,
    tables,
)

__all__ = ["ANALYSIS", "Difference", "ExtractionAnalysis", "ExtractionSettings", "analyse", "main", "tables"]
