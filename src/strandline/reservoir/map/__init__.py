"""An ordered map on pages: a B+tree whose leaves are pages, larger than memory.

leaf.py branch.py root.py large.py    pages <-> bytes; pure
cuts.py                               where a page is cut, which are joined; pure
tiers.py spill.py                     pages in memory, on the local disk, in the session
tree.py batch.py check.py             keeping it in balance, many changes at once, its rules
map.py                                what callers see
"""
