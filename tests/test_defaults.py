"""The defaults that documents, stored results and users rely on, in one table.

A default is a promise: whoever leaves an option out gets this value, in this version and in the next. A
change here is a change of what everyone gets, and belongs into the log.
"""

import inspect
import math
from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

DEFAULTS = """
implicit.fixed_point:Stopping rtol=0.0001, atol=0.0, max_iterations=1000
implicit.fixed_point:DampedPicard damping=0.8
implicit.fixed_point:Anderson memory=5, damping=1.0, regularization=1e-12
implicit.fixed_point:FixedPointProblem dependence=<Dependence.OWN: 'own'>, solve_adjoint=None
implicit.gradients:Unrolled iterations=4
implicit.gradients:Phantom steps=4, damping=None
implicit.gradients:Implicit solver=None, stopping=None
implicit.gradients:FactoredImplicit rtol=0.001
implicit.modes:Solve mode='auto', stopping=None, solver=None, gradient=None, start=None, windows=None,
    state_after=True
implicit.modes:Windowed width=16, sweeps=4, block=64, precision=10.0, agreement=20.0, patience=96
implicit.config.run:TrainConfig hard_fraction=None, sizes={}, batch_size=64, length=32, steps=1500,
    seed=0, checkpoint_every=100, algorithm='AdamW', compiled=None, initial=None
implicit.compiled:Gains decay=0.0625, sharpness=64.0, start=0.0625, dominance=128.0
implicit.compiled:compile_automaton gains=None, damping=1.0
implicit.compiled:compile_run gains=None, damping=1.0
implicit.config.optimizer:OptimizerConfig learning_rate=0.001, betas=(0.9, 0.95), weight_decay=0.0,
    gradient_clip=0.25, warmup_steps=100, final_learning_rate_fraction=0.1
implicit.config.evaluation:EvaluationConfig every=50, lengths=(), sequences=128, rtol=None,
    max_iterations=None, target_accuracy=None, patience=3
implicit.config.curriculum:Curriculum contraction_weight=0.0, contraction_scales=(0.1, 0.1),
    contraction_power=1.0, image_ball_weight=0.0, forgetting_weight=0.0, bounded_steps=1000,
    bounded_iterations=4, bounded_length=0, free_max_iterations=24, free_mode='auto', free_rtol=0.05,
    random_starts=0.0, free_gradient='phantom', phantom_steps=4, phantom_damping=0.8, carried_share=0.0,
    carried_after=0, carried_right=False, carried_always=False, loss_until_error=False, start_length=None,
    length_growth=8, length_growth_every=1000, growth_accuracy=None, final_steps=300
implicit.config.curriculum:Phase penalties=<factory>, carried_share=0.0, carried_right=False,
    carried_always=False, loss_until_error=False, random_starts=0.0, mode='simultaneous'
implicit.training.evaluation:evaluate sequences=256, batch_size=64, seed=0, stream=<Stream.TEST: 2>,
    number=(), solve=None, warn=True
implicit.training.streams:TokenBatch lengths=None, end=None
implicit.config.run:InitialWeights noise=0.0
implicit.training.initial:begin_from noise=0.0, allow_code=False
implicit.training.loop:take_steps show_progress=False, tensorboard=False, baselines=None, watch=None,
    asked_to_stop=None
implicit.training.train:train progress=True, tensorboard=False, device='cpu', task=None, model=None,
    watch=None
implicit.training.objective:objective noise=None, state=None
implicit.training.checkpoint:Progress step=0, seconds=0.0, target_met=0,
    growth=Growth(length=None, accuracy=0.0, final_from=None)
implicit.penalties.contraction:contraction_penalty scales=(0.1, 0.1), generator=None,
    mask=None, power=1.0
implicit.penalties.forgetting:forgetting_penalty scale=0.2, generator=None, lengths=None
implicit.models.mamba2:ImplicitMamba2Config expand=2, d_state=16, head_size=16, d_conv=4, groups=1,
    d_model=32, layers=1, mlp_size=0, residual=True, damping=0.8, rtol=0.0001, max_iterations=1000
implicit.models.lstm:LSTMConfig d_model=32, layers=1
implicit.language.cost:TrainingCost length=2048, gradient_checkpointing=False
implicit.language.cost:Activations.of phantom_steps=1, precision='bf16', gradient_checkpointing=False
implicit.language.cost:WeightMemory.of precision='bf16'
theory:check_theorem1 alternatives=None, start=None, max_iterations=4000, label='', seed=None
theory:solve_fixed_point start=None, max_iterations=4000
theory.fixed_point:refine max_steps=10
theory.belief:decay_rate precision=0.001, most_beliefs=2000, most_cycles=60
theory.belief:decay_report chosen=None, sequences=200, length=1200, seed=0
theory.belief:entropy_bounds most_beliefs=200000
theory.belief:belief_chain most_beliefs=2000
theory.belief:worst_sequence beam=None, tokens=None
theory.belief:observed_underflow tolerance=0.05, flush=False
theory.testing:assert_fixed_point latents=None, tolerance=None, max_iterations=4000
theory.testing:assert_contractive norm=False, max_iterations=4000
theory.testing:assert_theorem1 expected=<Verdict.HOLDS: 'holds'>
theory.testing:assert_modes_agree tolerance=0.0001, share=1.0
theory.rigorous.enclosure:refine max_steps=10
theory.rigorous.covers:close_cover attempts=40, errors=StepErrors(latent=0.0, state=0.0, program=None)
analysis.agreement.measurement:AgreementSettings sequences=32, length=256, seed=0, rtol=0.0001,
    max_iterations=1000, examples=16, starts=16
analysis.convergence.measurement:ConvergenceSettings sequences=8, length=256, seed=0, rtol=1e-06,
    max_iterations=1000
analysis.jacobian.measurement:JacobianSettings sequences=16, length=64, seed=0, states=64,
    max_iterations=4000
analysis.extraction.measurement:ExtractionSettings sequences=128, length=None, votes=4,
    inconsistent=0.001, max_suffixes=12, max_states=1000, fresh_words=64, times=4, demanded=0.99,
    rtol=0.001, max_iterations=200, seed=0
analysis.error_control.measurement:ErrorControlSettings sequences=64, length=256, seed=0, block=16,
    every=4, pairs=32, follow=32, errors=(0.001, 0.01, 0.1, 0.4), max_iterations=1000
analysis.belief.settings:BeliefSettings sequences=64, multiples=(1, 2, 4, 8), lengths=(), batch_size=16,
    seed=0, confidence=0.95, probe=True, probe_sequences=256, probe_validation=64, probe_seed=1, window=32,
    mode='auto', rtol=0.001, max_iterations=200
analysis.mechanism.measurement:MechanismSettings sequences=8, length=24, seed=0, pairs=64, follow=16,
    states=8, max_iterations=1000
analysis.length_generalization.measurement:LengthSettings lengths=(32, 64, 128, 256), sequences=256,
    batch_size=64, mode='auto', rtol=0.001, max_iterations=200, confidence=0.95, seed=0
analysis.modes:ModesSettings lengths=(64, 1024, 4096), sequences=4, seed=0
analysis.front_speed.measurement:FrontSpeedSettings sequences=4, length=256, walls=32, window=32,
    level=0.1, max_iterations=2000, seed=0
analysis.certificates.proofs.theorem1:CertifySettings sequences=16, length=64, seed=0, states=256
analysis.check_certificate:CheckSettings precision=128, work=200000000000000.0
analysis.certificates.proofs.words:WordsSettings length=12, tolerance=1e-07, dtype='float64', rtol=1e-13,
    max_iterations=2000
analysis.certificates.proofs.cover_search:LengthsSettings distance=0.0001, rate=0.86, gain=0.93,
    fraction=0.03, sets=30000, tolerance=1e-06, dtype='float64', small_radius=2e-06, rtol=1e-13,
    max_iterations=2000
analysis.demo:DemoSettings seed=0, states=64, states_length=64, lengths=(32, 64, 128, 256), sequences=256,
    agreement_sequences=32, convergence_sequences=4, mode_length=256, max_iterations=1000,
    training_seed=0, steps=None
automata.probabilistic:MarginalFilter rule='refuse'
automata.probabilistic:marginal_scope tokens=None, most_beliefs=20000
automata.probabilistic:lazy_swaps variables=5, probability=0.5, swaps=None, full_reveal=True
automata.probabilistic:unknown_coin heads_probability=0.6666666666666666
automata.tasks:make_task hard_fraction=None
automata.tasks.word_problem:WordProblem hard_fraction=1.0, easy_tokens=None, avoid=(), name='word
    problem', description=''
implicit.language.harness.evaluation:HarnessOptions data=None, limit=None, batch_size=1, seed=0,
    documents=200, length=None, max_length=None, device='cpu'
implicit.language.harness.tracking:tracking_documents length=16, documents=200, seed=0
automata.tasks.repl_language:ReplLanguage variables=3, reveal_every=4, commands=None, predict='all',
    actions='swaps', assignment='moved', initial='ordered', reveal='partial', spacing='fixed',
    reveal_first=False, hidden=None, probability=0.5, hidden_fraction=1.0, name='repl', description=None
automata.tasks.partially_observed:PartiallyObserved target='reveals', reveal_probability=0.25,
    name='probabilistic automaton', description=None
automata.tasks.partially_observed:PartiallyObserved.ceiling last=None, sequences=1024, rng=None
automata.tasks.swapping_balls:SwappingBalls balls=5, swaps=None, swapped='ball', predict='values',
    name='swap-balls', description=None
automata.tasks.small_programs:SmallPrograms statements=None, variables=3, modulus=10, iterations=4, depth=2,
    reversible=False, predict='values', name='small-programs', description=None
automata.programs:ProgramGrammar variables=3, modulus=10, iterations=4, depth=2, reversible=False
automata.programs:BallPuzzle swapped='ball'
automata.programs:run_program limit=10000
"""
ROWS = DEFAULTS.replace("\n    ", " ").strip().splitlines()
OF_THE_MACHINE = {"processes"}


def defaults_of(found: Any) -> Mapping[str, Any]:
    """The arguments or fields that may be left out, with their values; parts have a row of their own."""
    if isinstance(found, type) and issubclass(found, BaseModel):
        values = {
            name: field.get_default(call_default_factory=True)
            for name, field in found.model_fields.items()
            if not field.is_required() and name not in OF_THE_MACHINE
        }
        return {name: value for name, value in values.items() if not isinstance(value, BaseModel)}
    parameters = inspect.signature(found).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}


def row_of(place: str) -> str:
    module, _, name = place.partition(":")
    values = defaults_of(attrgetter(name)(import_module(module)))
    return f"{place} " + ", ".join(f"{name}={value!r}" for name, value in values.items())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.partition(" ")[0])
def test_what_is_left_out_has_the_promised_value(row: str) -> None:
    assert row_of(row.partition(" ")[0]) == row


MODELS = [row.partition(" ")[0] for row in ROWS if row.partition(" ")[0].endswith(("Settings", "Config"))]


@pytest.mark.parametrize("place", [*MODELS, "implicit.config.curriculum:Curriculum"])
def test_settings_are_fixed_once_made_know_their_fields_and_take_finite_numbers_only(place: str) -> None:
    module, _, name = place.partition(":")
    found: type[BaseModel] = getattr(import_module(module), name)
    assert found.model_config.get("frozen") is True
    assert found.model_config.get("extra") == "forbid"
    for field, info in found.model_fields.items():
        if place.endswith("Settings"):
            assert info.description, f"{field} is an option of a command, whose help says nothing of it"
        if info.annotation is float:
            for value in (math.nan, math.inf):
                errors = faults(found, {field: value})
                assert field in errors, f"{field} = {value} is taken"


def faults(found: type[BaseModel], values: dict[str, float]) -> set[str]:
    """The fields that are refused."""
    try:
        found.model_validate(values)
    except ValidationError as error:
        return {str(one["loc"][0]) for one in error.errors() if one["loc"]}
    return set()
