"""The reservoir: pages of bytes, checkpointed together, kept in an object store.

    keys.py codec.py checkpoint.py registry.py      bytes and names; pure
    pages.py files.py state.py                      where each page lies, which files there are
    packing.py blob.py uploads.py pool.py           pages into files, files into the object store
    session.py                                      one thread's view of all that
    cache/ reading.py                               files on the local disk, pages out of them
    compaction.py garbage.py                        rewriting, deleting
    recovery.py opening.py checkpointing.py         the newest version, taken over, and the next one
    requests.py inspect.py check.py                 what it costs, what is there, if it is whole
    reservoir.py versions.py                        opens, wires, checkpoints, closes
    map/                                            an ordered map on pages

docs/format/reservoir.md has every byte.
"""
