"""Run the command ``python -m analysis.belief``."""

from analysis.belief import main

raise SystemExit(main())
