"""The tasks of a rebuild: a view folded from the log in pieces, by the folds that the store has.

recipes.py   what of a record a kind of view needs, and how its work can be divided
gather.py    a task that reads a part of the log and sorts what is needed of it
folding.py   a task that folds one range of keys, all records of it
joining.py   the states of all ranges as one
census.py    what a user can see of a state, in ranges with a checksum each
tables.py    event tables, which are compared by ranges of seqs
kept.py      what finished tasks have left, for a run that goes on
summary.py   what a rebuild tells of itself
"""
