"""Run the command ``python -m analysis.error_control``."""

import sys

from analysis.error_control import main

sys.exit(main())
