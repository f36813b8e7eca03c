"""What the packages of implicit-ssm have in common: their version, and a check that they are found.

``automata``, ``theory``, ``analysis`` are names that others use as well: automata-lib, which is imported as
``automata``, or a folder of the user's. Where such a package is found instead, imports would fail somewhere
inside; `require` says at once what is wrong. This package has the name of the distribution, and is its lowest
layer.
"""

from implicit_ssm.own import require
from implicit_ssm.version import __version__

__all__ = ["__version__", "require"]
