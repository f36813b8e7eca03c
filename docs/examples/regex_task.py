"""A task from a regular expression: which pair of letters is half read?"""

import sys

import torch

from automata.tasks.specification import task_from
from implicit import Run, recipe, train

PAIRS = {"regex": "(ab|ba)*"}


def main(out: str, steps: int = 300) -> Run:
    """Train an LSTM, and show what it reaches beside the most frequent answer."""
    task = task_from(PAIRS)
    print(task.token_names, task.target_names)
    config = recipe(PAIRS, "lstm", steps=steps, warmup_steps=1, evaluate_every=steps)
    run = train(config, out, progress=False)
    for length, measured in run.metrics[-1]["validation"].items():
        print(f"length {length}: {measured['accuracy']:.3f}, chance {measured['majority_baseline']:.3f}")
    return run


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads of so small a model would only wait for each other
    main(sys.argv[1])
