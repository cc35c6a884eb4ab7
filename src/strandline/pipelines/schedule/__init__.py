"""Pipelines that a store declares, run when they are due, one run of each at a time.

registry.py    which pipelines can be declared, with their arguments
declared.py    which declarations are good
due.py         points in time
ledger.py      what is known of each, and its lease
running.py     one run, in a process of its own
child.py       the program of that process
history.py     what has run, in a topic
schedule.py    all of it together
"""
