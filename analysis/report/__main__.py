"""Run the command ``python -m analysis.report``."""

from analysis.report import main

raise SystemExit(main())
