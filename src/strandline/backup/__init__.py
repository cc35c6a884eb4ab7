"""Backups of a store in any object store: take, list, verify, restore, prune."""
