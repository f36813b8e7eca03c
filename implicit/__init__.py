"""Implicit state-space models: the models, their training, and the run folders that keep them.

- Train: `recipe`, `train`, `TrainConfig`, `evaluate`, `Evaluation`.
- Load: `load_run`, `Run`; `Run.of` for a model in memory.
- Models: `ImplicitMamba2`, `ImplicitMamba3`, `ImplicitDeltaNet`, `ImplicitGatedDeltaNet`,
  `ImplicitGatedDeltaProduct`, `ImplicitTransformer`, `Mamba2`, `Mamba3`, `DeltaNet`, `GatedDeltaNet`,
  `GatedDeltaProduct`, `PDSSM`, `Transformer`, `LSTM`, `SLSTM`, `GRU`, `Elman`.
- Make one by name: `model_names`, `build_model`.
- Write your own: `wrap` (any module), `StepModel`, `SequenceModel`, `FixedPointModel`, `ModelConfig`,
  `ModelOutput`, `Cell`, `CellSizes`, `explicit_model`, `implicit_model`.
- Layers for a network of your own: `ImplicitLayer`, `ExplicitLayer`.
- How fixed points are sought: `Solve`, `Windowed`, `Stopping`, `DampedPicard`, `Anderson`, `Status`,
  `NotConvergedWarning`.
- Gradient rules: `Phantom`, `Implicit`, `FactoredImplicit`, `Unrolled`.
- Sizes of models: `ImplicitMamba2Config`, `Mamba2Config`, `LSTMConfig`.
- Sub-packages: `cells` (recurrent layers), `models` (the models), `modes` (in which order tokens are
  solved), `fixed_point` (solvers; ``fixed_point(f, z0)`` solves any function), `gradients` (gradient rules),
  `ops` (operations with fast forms and kernels), `enclosed` (models on balls, for proofs), `config` (what
  determines a run), `penalties` (terms of the loss), `training` (the loop), `runs` (run folders),
  `compiled` (models computed from automata).

The names are imported when they are first used, so that ``import implicit`` stays light. ``train`` is
both the function that trains and the module of the command ``python -m implicit.train``, which can be called;
so is ``fixed_point`` both a function and a package.

Example:
    >>> import torch
    >>> import implicit
    >>> implicit.load_run("parity").model(torch.tensor([[1, 0, 1, 1]])).argmax(-1)
    tensor([[1, 1, 0, 1]])
    >>> model = implicit.GRU(vocabulary_size=2, output_size=2, d_model=8)
    >>> model.parameter_count()
    466
"""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

# isort: split
import lazy_loader

require("automata", "theory")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
