"""Lists the possible targets of a mutant: ``python -m tests.mutants module:qualname``."""

from __future__ import annotations

import sys

from tests.mutants.catalogue import tree_at
from tests.mutants.nodes import listing, statements

if __name__ == "__main__":
    function = tree_at(sys.argv[1])
    print(listing(function, statements(function)))
