"""A simulated disk, clock, network and object store for tests."""
