"""How sure an accuracy is that was measured on so many sequences, for captions."""

from analysis.length_generalization import wilson_interval


def interval_sentence(sequences: int, accuracy: str = "accuracy") -> str:
    """Return the sentence of a caption: Wilson's interval at 95%, at its widest and of a run without errors.

    The sequences are the independent units; see `analysis.length_generalization.wilson_interval`.

    Args:
        sequences: that the accuracy of a run is the mean over.
        accuracy: which one of the run is meant, such as ``"sequential accuracy"``.

    Example:
        >>> interval_sentence(256)
        "The 95% interval of a run's accuracy is at most ±0.06; of one without errors it begins at 0.985."
    """
    low, high = wilson_interval(0.5, sequences)
    perfect, _ = wilson_interval(1.0, sequences)
    return (
        f"The 95% interval of a run's {accuracy} is at most ±{(high - low) / 2:.2f}; of one without errors "
        f"it begins at {perfect:.3f}."
    )
