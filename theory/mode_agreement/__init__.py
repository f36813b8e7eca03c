"""When do simultaneous and sequential mode agree, after how many sweeps? See docs/when_modes_agree.md."""

from theory.mode_agreement.cones import SweepInequality as SweepInequality
from theory.mode_agreement.linear_response import (
    LinearResponse as LinearResponse,
    linear_response as linear_response,
    linear_speed as linear_speed,
)
