"""Run the command ``python -m analysis.mechanism``."""

from analysis.mechanism import main

raise SystemExit(main())
