"""Run the command ``python -m analysis.extraction``."""

from analysis.extraction import main

raise SystemExit(main())
