"""Run the command ``python -m analysis.jacobian``."""

from analysis.jacobian import main

raise SystemExit(main())
