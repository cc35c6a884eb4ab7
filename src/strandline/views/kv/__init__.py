"""A key-value map over the records' keys: the newest record of a key is its value.

    kv.py           the public face: put, get, scan, json, transactions, watch
    values.py       what is given and asked for: entries, versions, changes
    fold.py         the state: records in, keys out
    slot.py         one key's state, and its bytes in a map
    agenda.py       which keys end when
    account.py      how much memory all that takes
    meta.py         what a record's meta says: until when, deleted, forgotten
    decisions.py    whether and what to write, for one key
    changes.py      several keys in the middle of an operation
    transaction.py  reads and writes that happen at once, or not at all
    json_path.py    a place in a JSON document
    scanning.py     entries in order
    history.py      versions of a key
    watch.py        follow changes
    compaction.py   lets records go that nobody can see any more

What is appended without the view is part of it: a record with a key is a put.
"""
