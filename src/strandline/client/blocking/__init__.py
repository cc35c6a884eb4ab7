# Made from asynchronous/__init__.py by tests/house/blocking.py: change that one.
"""The client, blocking. It is made from the one for coroutines by ``tests/house/blocking.py``."""
