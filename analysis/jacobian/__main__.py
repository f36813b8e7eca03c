"""Run the command ``python -m analysis.jacobian``."""

import sys

from analysis.jacobian import main

sys.exit(main())
