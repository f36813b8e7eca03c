"""The command ``implicit-ssm`` as ``python -m implicit_ssm``."""

from implicit_ssm.console import main

if __name__ == "__main__":
    raise SystemExit(main())
