"""The kinds of claims, a file each: what is claimed, in words and numbers, and how it is checked.

Every module here is imported, and its subclasses of `analysis.certificates.certificate.Claim` are known by
their kinds.
"""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
