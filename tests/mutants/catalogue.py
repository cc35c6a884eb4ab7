"""The code broken on purpose: one promise at a time, each with the test that must fail.

A mutant changes one function with an operator (``operators.py``), which finds its target by the
kind, the number and the shape of a statement and contains no source text. Mutants are in
``planted/``. ``STRANDLINE_MUTANT=name`` plants one before any test runs (``tests/conftest.py``).

When the function has changed so that the target is at another place, or has another shape,
``test_a_mutant_fits_the_code_as_it_is`` fails and lists the statements of the function. Write the
label and the shape of the right statement into the mutant, or delete the mutant if the promise is
gone. For a new mutant, this lists the statements of a function with their shapes, and all parts:

    python -m tests.mutants wal.committer:Committer._round
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
import types

from tests.mutants.mutant import Mutant
from tests.mutants.planted.clients import CLIENTS
from tests.mutants.planted.consumers import CONSUMERS
from tests.mutants.planted.deliveries import DELIVERIES
from tests.mutants.planted.identity import IDENTITY
from tests.mutants.planted.kv import KV
from tests.mutants.planted.lake import LAKE
from tests.mutants.planted.log import LOG
from tests.mutants.planted.measurements import MEASUREMENTS
from tests.mutants.planted.memory import MEMORY
from tests.mutants.planted.pipelines import PIPELINES
from tests.mutants.planted.queries import QUERIES
from tests.mutants.planted.reservoir import RESERVOIR
from tests.mutants.planted.routers import ROUTERS
from tests.mutants.planted.security import SECURITY
from tests.mutants.planted.server import SERVER
from tests.mutants.planted.simulation import SIMULATION
from tests.mutants.planted.tables import TABLES
from tests.mutants.planted.topics import TOPICS
from tests.mutants.planted.views import VIEWS
from tests.mutants.planted.zones import ZONES

MUTANTS: dict[str, Mutant] = {
    **LOG,
    **TOPICS,
    **LAKE,
    **RESERVOIR,
    **VIEWS,
    **TABLES,
    **ZONES,
    **KV,
    **CONSUMERS,
    **MEASUREMENTS,
    **QUERIES,
    **IDENTITY,
    **MEMORY,
    **PIPELINES,
    **DELIVERIES,
    **ROUTERS,
    **SERVER,
    **SIMULATION,
    **SECURITY,
    **CLIENTS,
}

SAMPLE = (
    "acknowledge before the sync",
    "retry a failed sync",
    "cut the log at the first bad frame",
    "use the seqs of a lost tail again",
    "let the local copy go before the commit",
    "believe an upload without reading it back",
    "overwrite a version of another writer",
    "checkpoint before all files are stored",
    "save a view before its records are durable",
)
"""Run with every ``make test``; all of them with ``make crash``."""


def plant(name: str) -> None:
    """Break the function, also where it has been imported already."""
    mutant = MUTANTS[name]
    function = function_at(mutant.place)
    module = ast.Module([broken(mutant)], type_ignores=[])
    code = compile(ast.fix_missing_locations(module), f"<mutant: {name}>", "exec")
    space = dict(function.__globals__)
    exec(code, space)  # our own source, see above
    function.__code__ = space[function.__name__].__code__


def broken(mutant: Mutant) -> ast.FunctionDef:
    """The function with the bug. ``Misfit`` when the target of the operator is not in it."""
    tree = tree_at(mutant.place)
    mutant.operator.apply(tree)
    return tree


def tree_at(place: str) -> ast.FunctionDef:
    """The source of a function as a tree."""
    source = textwrap.dedent(inspect.getsource(function_at(place)))
    (tree,) = ast.parse(source).body
    return tree


def function_at(place: str) -> types.FunctionType:
    """The function that ``module:qualname`` names."""
    module, _, name = place.partition(":")
    found: object = importlib.import_module(f"strandline.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, types.FunctionType)
    return found
