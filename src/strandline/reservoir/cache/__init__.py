"""Files of a distant object store on the local disk.

shelf.py open_files.py     the folder, and what is open of it
eviction.py                which file goes
flights.py downloads.py    one download for all who wait, checked
cache.py                   what readers see
"""
