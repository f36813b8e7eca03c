"""Questions about trained models, each a command: ``python -m analysis.<question> RUN``.

``python -m analysis`` lists them. `analysis.questions` is the table that the list and the report are made
from; `analysis.framework` is what the questions have in common.
"""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata", "theory", "implicit")
