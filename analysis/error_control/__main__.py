"""Run the command ``python -m analysis.error_control``."""

from analysis.error_control import main

raise SystemExit(main())
