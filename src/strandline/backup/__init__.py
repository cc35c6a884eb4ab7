"""Backups of a store in any object store: create, list, verify, restore, prune."""
