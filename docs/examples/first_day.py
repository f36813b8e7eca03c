"""A first day: a GRU of one's own on a language of one's own, questioned, and drawn over three seeds."""

import argparse
import time

import torch
from own_gru import OwnGRU

import analysis
import implicit

LANGUAGE = {"regex": "(aa|bb|(ab|ba)(aa|bb)*(ab|ba))*"}  # an even number of a, and an even number of b


def main(out: str = "out/first_day", steps: int = 250) -> None:
    """Train three seeds, then ask what they do, what their transition is and what they learnt."""
    torch.set_num_threads(1)  # threads of so small a model would only wait for each other
    began = time.monotonic()
    runs = []
    for seed in range(3):
        settings = {"seed": seed, "steps": steps, "length": 16, "batch_size": 32, "learning_rate": 0.01}
        config = implicit.recipe(LANGUAGE, OwnGRU, **settings)
        runs.append(implicit.train(config, f"{out}/seed-{seed}", progress=False))

    accuracy = analysis.ask("length_generalization", *runs, lengths=[16, 64, 256], out=f"{out}/accuracy")
    for found in accuracy.runs:
        print(f"{found.run.name}: accuracy {found.accuracy(256):.3f} at 256 tokens")

    theorem1 = analysis.ask("jacobian", runs[0], out=f"{out}/theorem1")
    print(theorem1.sentence)
    print(theorem1.report.kind_sentence)

    for found in analysis.ask("extraction", *runs, out=f"{out}/automata"):
        states, share = found.extraction.machine.state_count, found.fidelity(64)
        print(f"{found.run.name}: {found.verdict}, {states} states; followed at {share:.2%} of 64 tokens")
    print(f"done in {time.monotonic() - began:.0f} seconds")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out/first_day")
    parser.add_argument("--steps", type=int, default=250)
    main(**vars(parser.parse_args()))
