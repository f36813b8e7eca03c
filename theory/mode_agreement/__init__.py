"""When do simultaneous and sequential mode agree, after how many sweeps? See docs/when_modes_agree.md."""

from theory.mode_agreement.cones import SweepInequality
from theory.mode_agreement.linear_response import LinearResponse, linear_response, linear_speed
from theory.mode_agreement.proved_response import bound_responses

__all__ = ["LinearResponse", "SweepInequality", "bound_responses", "linear_response", "linear_speed"]
