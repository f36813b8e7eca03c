"""Questions about trained models, each a command: ``python -m analysis.<question> RUN``.

- Ask one from Python: `ask`, with its answer returned and its numbers and figures written.
- What a model does: `length_generalization`, `extraction` (the automaton behind it), `error_control`,
  `belief` (what it knows of a hidden state), `mechanism` (how several models hold the same automaton).
- What its transition is: `jacobian` (Theorem 1, measured).
- How its fixed points are found: `convergence`, `agreement`, `modes`, `front_speed`.
- What is proved of it: `certify`, `all_words`, `all_lengths`, `executed`, and
  `check_certificate`.
- All of it on one page: `report`; three models from nothing: `demo`.
- The table of all questions: `QUESTIONS`. Figures like these: `styled`, `save_figure`.
- What questions have in common, to write your own: `framework`.

A question's module has ``analyse(run, **settings)`` (``certify.certify``), which only computes, and
``draw(answer)`` where it has a figure. ``python -m analysis`` lists the commands. Names are imported when
they are first used.

Example:
    >>> import analysis
    >>> [question.name for question in analysis.QUESTIONS][:3]
    ['length_generalization', 'jacobian', 'agreement']
"""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata", "theory", "implicit")
from typing import TYPE_CHECKING

from automata.lazy_names import lazy_names

if TYPE_CHECKING:
    from analysis import agreement as agreement
    from analysis import all_lengths as all_lengths
    from analysis import all_words as all_words
    from analysis import belief as belief
    from analysis import certify as certify
    from analysis import check_certificate as check_certificate
    from analysis import convergence as convergence
    from analysis import demo as demo
    from analysis import error_control as error_control
    from analysis import executed as executed
    from analysis import extraction as extraction
    from analysis import framework as framework
    from analysis import front_speed as front_speed
    from analysis import jacobian as jacobian
    from analysis import length_generalization as length_generalization
    from analysis import mechanism as mechanism
    from analysis import modes as modes
    from analysis import report as report
    from analysis.asking import ask
    from analysis.framework.figures import save_figure, styled
    from analysis.questions import QUESTIONS

_HOMES = {
    "QUESTIONS": "analysis.questions",
    "ask": "analysis.asking",
    "save_figure": "analysis.framework.figures",
    "styled": "analysis.framework.figures",
}

__all__ = ["QUESTIONS", "ask", "save_figure", "styled"]

_MODULES = (
    "agreement",
    "all_lengths",
    "all_words",
    "belief",
    "certify",
    "check_certificate",
    "convergence",
    "demo",
    "error_control",
    "executed",
    "extraction",
    "framework",
    "front_speed",
    "jacobian",
    "length_generalization",
    "mechanism",
    "modes",
    "report",
)

__getattr__, __dir__ = lazy_names(__name__, _HOMES, _MODULES)
