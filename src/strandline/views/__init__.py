"""Views: shapes of the log. Each is a fold over topics, saved in a reservoir, rebuilt from the log.

    view.py       what a fold is: rows in, pages out
    host.py       one fold beside its topics: catching up, deciding, appending
    shelf.py      all views of a store: loaded, saved together, folded again
    catalogue.py  which views are saved, and where; saved.py reads them without their store
    views.py      views by name, with their topics and options; kinds.py: which kinds there are
    kv/           a key-value map with history
    queue/        a work queue with leases
    groups/       consumer groups on plain topics
    series/       records by source and time, with late arrivals
    metrics/      measurements with tags and numeric fields

docs/guide/views.md tells what users may expect of them.
"""
