"""The client, for coroutines. The blocking one is made from it by ``tests/house/blocking.py``."""
