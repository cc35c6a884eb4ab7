"""Time series: records by source and time, in whatever order they come.

meta.py                      what a record says of itself: at, version, route
block.py payloads.py         points packed, with small payloads; pure
source.py sources.py         what is known of one source, and of all: the newest in memory
tuning.py pending.py         how far apart index entries are, and those that wait for the map
decoded.py                   blocks that are read often, unpacked
index.py                     blocks and late arrivals of all sources, in two ordered maps
fold.py                      the fold: points in, selections out
sweep.py                     drops what is below the floor
versions.py                  how payloads are read, by their version number
values.py reading.py         what is given out, and how it is asked for
series.py                    the public face: append, range, retention
"""
