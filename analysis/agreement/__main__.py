"""Run the command ``python -m analysis.agreement``."""

from analysis.agreement import main

raise SystemExit(main())
