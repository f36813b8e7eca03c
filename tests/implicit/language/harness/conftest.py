"""lm-eval asks pip for all packages at every evaluation, which takes a second. Here it asks once."""

from collections.abc import Iterator
from functools import cache

import pytest
from torch.utils import collect_env


@pytest.fixture(scope="session", autouse=True)
def _packages_are_listed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect_env, "get_pretty_env_info", cache(collect_env.get_pretty_env_info))
        yield
