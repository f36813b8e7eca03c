"""No request leaves the machine while a model is evaluated: all is read from folders."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")


@contextmanager
def offline() -> Iterator[None]:
    """Refuse what would ask the Hugging Face Hub, until the block ends.

    The libraries read their environment variables when they are imported: what is imported within the block
    reads them as set here, and the setting of the Hub's client, which the others ask, is put back at the end.

    Example:
        >>> from huggingface_hub import HfApi
        >>> with offline():
        ...     HfApi().model_info("gpt2")
        Traceback (most recent call last):
        ...
        huggingface_hub.errors.OfflineModeIsEnabled: ...
    """
    from huggingface_hub import constants

    before = {name: os.environ.get(name) for name in _VARIABLES}
    setting = constants.HF_HUB_OFFLINE
    os.environ.update(dict.fromkeys(_VARIABLES, "1"))
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = setting
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
