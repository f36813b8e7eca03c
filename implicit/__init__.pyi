"""The public names and where they are defined, for type checkers and for importing them late."""

from . import cells as cells
from . import compiled as compiled
from . import config as config
from . import enclosed as enclosed
from . import gradients as gradients
from . import models as models
from . import modes as modes
from . import ops as ops
from . import penalties as penalties
from . import runs as runs
from . import training as training
from .cells import Cell as Cell, CellSizes as CellSizes
from .config.recipes import recipe as recipe
from .config.run import TrainConfig as TrainConfig
from .fixed_point import (
    Anderson as Anderson,
    DampedPicard as DampedPicard,
    NotConvergedWarning as NotConvergedWarning,
    Status as Status,
    Stopping as Stopping,
)
from .gradients import (
    FactoredImplicit as FactoredImplicit,
    Implicit as Implicit,
    Phantom as Phantom,
    Unrolled as Unrolled,
    fixed_point as fixed_point,
)
from .models.explicit import explicit_model as explicit_model
from .models.implicit_model import implicit_model as implicit_model
from .models.interface import (
    FixedPointModel as FixedPointModel,
    ModelConfig as ModelConfig,
    ModelOutput as ModelOutput,
    SequenceModel as SequenceModel,
)
from .models.layer import ExplicitLayer as ExplicitLayer, ImplicitLayer as ImplicitLayer
from .models.registry import (
    PDSSM as PDSSM,
    DeltaNet as DeltaNet,
    GatedDeltaNet as GatedDeltaNet,
    GatedDeltaProduct as GatedDeltaProduct,
    ImplicitDeltaNet as ImplicitDeltaNet,
    ImplicitGatedDeltaNet as ImplicitGatedDeltaNet,
    ImplicitGatedDeltaProduct as ImplicitGatedDeltaProduct,
    ImplicitMamba2 as ImplicitMamba2,
    ImplicitMamba2Config as ImplicitMamba2Config,
    ImplicitMamba3 as ImplicitMamba3,
    ImplicitTransformer as ImplicitTransformer,
    Mamba2 as Mamba2,
    Mamba2Config as Mamba2Config,
    Mamba3 as Mamba3,
    Transformer as Transformer,
    build_model as build_model,
    model_names as model_names,
)
from .models.torch_rnn import (
    GRU as GRU,
    LSTM as LSTM,
    SLSTM as SLSTM,
    Elman as Elman,
    LSTMConfig as LSTMConfig,
)
from .models.step_model import StepModel as StepModel, wrap as wrap
from .modes import Solve as Solve, Windowed as Windowed
from .runs.loading import Run as Run, load_run as load_run
from .training.evaluation import Evaluation as Evaluation, evaluate as evaluate
from .training.train import train as train

__version__: str
