"""What lm-eval says of the machine is found once: it asks pip for all packages, which takes a second."""

from collections.abc import Iterator
from functools import cache

import pytest
from torch.utils import collect_env


@pytest.fixture(scope="session", autouse=True)
def _packages_are_listed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect_env, "get_pretty_env_info", cache(collect_env.get_pretty_env_info))
        yield
