"""Run the command ``python -m analysis.one_fixed_point``."""

import sys

from analysis.one_fixed_point import main

sys.exit(main())
