"""Thousands of mutations: how many are refused, how many leave a true statement, and what else there is."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.certificate_mutations.mutations import mutated
from benchmarks.certificate_mutations.targets import Target
from benchmarks.certificate_mutations.truth import Judge, differences


@dataclass(eq=False)
class Outcome:
    kind: str
    refused: Counter[str] = field(default_factory=Counter)
    true: int = 0
    unchanged: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def mutations(self) -> int:
        return self.refused.total() + self.true + self.unchanged + len(self.faults)


def sweep(target: Target, count: int, seed: int, judge: Judge | None = None) -> Outcome:
    """Mutate a certificate, give every mutation to the checker, and judge what it accepts."""
    outcome, judge = Outcome(target.kind), judge or Judge(target)
    for text in texts(target, count, seed):
        try:
            line = target.refusal(text)
        except Exception as fault:
            outcome.faults.append((f"the checker failed: {fault!r}", text))
            continue
        if line is not None:
            outcome.refused[re.sub(r"^claims\[\d+\]\.", "", line).split(".")[0].split("[")[0]] += 1
            continue
        content = json.loads(text)
        if not differences(target.content, content):
            outcome.unchanged += 1
            continue
        wrong = judge.fault(content)
        if wrong is None:
            outcome.true += 1
        else:
            outcome.faults.append((wrong, text))
    return outcome


def texts(target: Target, count: int, seed: int) -> Iterator[str]:
    """Return mutations of a certificate, the same for the same seed."""
    generator = random.Random(f"{target.kind} {seed}")
    for _ in range(count):
        yield mutated(target.content, generator)
