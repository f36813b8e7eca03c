"""Run the command ``python -m analysis.length_generalization``."""

import sys

from analysis.length_generalization import main

sys.exit(main())
