"""The public names and where they are defined, for type checkers and for importing them late."""

from .published_tables import read_table as read_table
from .registry import figure_named as figure_named

__version__: str
