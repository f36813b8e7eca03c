"""What each of two processes runs: small trainings, replicated or sharded, into a folder for each.

torchrun --nproc-per-node 2 -m tests.implicit.language.pretrain.train_on_two_processes FOLDER
"""

import sys
from pathlib import Path

import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

from implicit.language.pretrain import make_accelerator, pretrain
from tests.implicit.language.pretrain.small_runs import small_run

RUNS = [("mamba2", "replicated"), ("llama", "replicated"), ("mamba2", "sharded"), ("llama", "sharded")]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    process_group = PartialState(cpu=True)
    for family, how in RUNS:
        config = small_run(folder / "texts", family)
        options = {}
        if how == "sharded":
            # accelerate shards on accelerators only: nothing but this line says that there is none
            process_group.distributed_type = DistributedType.MULTI_XPU
            options["fsdp_plugin"] = FullyShardedDataParallelPlugin(
                fsdp_version=2, auto_wrap_policy="no_wrap", cpu_ram_efficient_loading=False
            )
        accelerator = make_accelerator(config, cpu=True, **options)
        assert accelerator.num_processes == 2
        out = folder / f"{family}-{how}"
        if how == "sharded":  # and goes on from a checkpoint of shards

            def stop(line: dict[str, object]) -> None:
                if line["step"] == 5:
                    raise InterruptedError

            try:
                pretrain(config, out, accelerator, watch=stop)
            except InterruptedError:
                accelerator.wait_for_everyone()
            accelerator.free_memory()
        pretrain(config, out, accelerator)
        accelerator.free_memory()
        AcceleratorState._reset_state()
        GradientState._reset_state()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
