"""Mutants: a module's source with one small fault, made by the operators of mutmut.

mutmut's own runner copies a function beside its mutants and switches between them at a call; it leaves out
functions with a decorator (properties, ``torch.no_grad``) and what stands in a class or a module. Its
operators are applied here to the whole source instead. Left out are annotations, decorators, imports,
``__all__``, docstrings, defaults and fields of classes, which are choices whose test would be their copy,
sentences and drawings, whose wording and looks no test holds, and what states that something cannot happen:
``assert`` and the ``strict`` of ``zip``.
"""

import ast
import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff

import libcst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import deep_replace
from mutmut.mutation.mutators import mutation_operators

_LEFT_OUT = (
    libcst.Annotation,
    libcst.Assert,
    libcst.Decorator,
    libcst.Import,
    libcst.ImportFrom,
    libcst.Param,
    libcst.Raise,
)
_ARGUMENTS_LEFT_OUT = {
    "description",
    "help",
    "metavar",
    "strict",
    "desc",
    "leave",
    "title",
    "xlabel",
    "ylabel",
}
_TEXTS = (libcst.SimpleString, libcst.FormattedString, libcst.ConcatenatedString)


@dataclass(frozen=True)
class Mutant:
    """One fault in one file, made by one of mutmut's operators.

    ``line`` is where it starts in the original, from 1; ``change`` the lines that differ, as a diff
    without context; ``source`` the whole mutated file. The name, of file and digest, stays the same while
    other parts of the file change.
    """

    file: str
    operator: str
    line: int
    change: str
    name: str
    source: str


def sample(sources: Mapping[str, str], size: int | None, seed: int) -> list[Mutant]:
    """Draw mutants of some files without replacement.

    The operators take turns, so that those that fit nearly every line (an argument becomes None, which most
    often fails at once) do not crowd out a changed comparison or number. All are taken if ``size`` is None.
    """
    piles: dict[str, list[_Fault]] = defaultdict(list)
    for file, source in sources.items():
        wrapper = MetadataWrapper(libcst.parse_module(source))
        faults = _Faults(file, wrapper.module)
        wrapper.visit(faults)
        for fault in faults.found:
            piles[fault.operator].append(fault)
    dice = random.Random(seed)
    for _, pile in sorted(piles.items()):
        dice.shuffle(pile)
    drawn: list[Mutant] = []
    while any(piles.values()):
        for _, pile in sorted(piles.items()):
            if len(drawn) == size:
                return drawn
            if pile and (mutant := pile.pop().mutant()) is not None:
                drawn.append(mutant)
    return drawn


@dataclass(frozen=True)
class _Fault:
    """A node with what stands in its place; the whole file is written for those that are drawn only."""

    file: str
    operator: str
    line: int
    module: libcst.Module
    original: libcst.CSTNode
    mutated: libcst.CSTNode
    same_before: int

    def mutant(self) -> Mutant | None:
        """The mutant; None if nothing changes or Python cannot read it."""
        tree = deep_replace(self.module, self.original, self.mutated)
        assert isinstance(tree, libcst.Module)
        lines = unified_diff(self.module.code.splitlines(), tree.code.splitlines(), n=0, lineterm="")
        change = "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
        if not change or not _is_python(tree.code):
            return None
        code = self.module.code_for_node
        fault = f"{code(self.original)}{code(self.mutated)}{self.same_before}"
        digest = hashlib.sha256(fault.encode()).hexdigest()[:10]
        return Mutant(self.file, self.operator, self.line, change, f"{self.file}:{digest}", tree.code)


class _Faults(libcst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, file: str, module: libcst.Module) -> None:
        super().__init__()
        self.file, self.module = file, module
        self.found: list[_Fault] = []
        self.seen = Counter[tuple[str, str]]()
        self.fields: set[libcst.CSTNode] = set()

    def on_visit(self, node: libcst.CSTNode) -> bool:
        if isinstance(node, libcst.ClassDef):
            lines = [one for one in node.body.body if isinstance(one, libcst.SimpleStatementLine)]
            self.fields.update(
                one for line in lines for one in line.body if isinstance(one, libcst.AnnAssign)
            )
        if node in self.fields or _is_left_out(node):
            return False
        if (position := self.get_metadata(PositionProvider, node, None)) is None:
            return True
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                for mutated in operator(node):
                    same = self.module.code_for_node(node), self.module.code_for_node(mutated)
                    place = self.file, operator.__name__, position.start.line
                    self.found.append(_Fault(*place, self.module, node, mutated, self.seen[same]))
                    self.seen[same] += 1
        return True


def _is_left_out(node: libcst.CSTNode) -> bool:
    if isinstance(node, _LEFT_OUT):
        return True
    if isinstance(node, libcst.Assign):
        return any(
            isinstance(one.target, libcst.Name) and one.target.value == "__all__" for one in node.targets
        )
    if isinstance(node, libcst.FunctionDef):
        return node.name.value.lstrip("_").startswith("draw")
    if isinstance(node, _TEXTS):  # a sentence, and no name
        return " " in libcst.Module([]).code_for_node(node)
    if isinstance(node, libcst.Arg):
        return node.keyword is not None and node.keyword.value in _ARGUMENTS_LEFT_OUT
    if isinstance(node, libcst.SimpleStatementLine) and isinstance(node.body[0], libcst.Expr):
        return isinstance(node.body[0].value, libcst.SimpleString | libcst.ConcatenatedString)
    return False


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
