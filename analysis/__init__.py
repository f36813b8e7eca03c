"""Questions about trained models, each a command: ``python -m analysis.<question> RUN``.

- Ask one from Python: `ask`, with its answer returned and its numbers and figures written.
- A model's behaviour: `length_generalization`, `extraction` (the automaton behind it), `error_control`,
  `belief` (what it knows of a hidden state), `mechanism` (how several models hold the same automaton).
- Its transition: `jacobian` (Theorem 1, measured).
- How its fixed points are found: `convergence`, `agreement`, `modes`, `front_speed`.
- Proofs about it: `certify`, and `check_certificate`; `all_words`, `all_lengths` and `executed` are old
  names of ``certify --claim`` words, starts and executed.
- All of it on one page: `report`; three models from nothing: `demo`.
- The table of all questions: `QUESTIONS`. Figures like these: `styled`, `save_figure`.
- The parts that questions share, to write your own: `framework`.

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

# isort: split
import lazy_loader

require("automata", "theory", "implicit")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
