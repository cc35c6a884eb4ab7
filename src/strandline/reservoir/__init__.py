"""The reservoir: pages of bytes, checkpointed together, kept in an object store.

    keys.py codec.py checkpoint.py registry.py    bytes and names; pure
    pages.py files.py                             where each page lies; which files there are
    blob.py uploads.py session.py                 pages into files, files into the object store
    cache.py reading.py                           files on the local disk, pages out of them
    compaction.py garbage.py recovery.py          rewriting, deleting, opening
    reservoir.py versions.py                      opens, wires, checkpoints, closes
    leaf.py branch.py spill.py map.py             an ordered map on pages

docs/format/reservoir.md has every byte.
"""
