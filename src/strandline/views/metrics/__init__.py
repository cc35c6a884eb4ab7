"""Measurements with tags and numeric fields: points in, answers out.

metrics.py       what users call
lines.py         line protocol -> tables; quick_lines.py and column_lines.py the plain cases
tables.py        rows that come one by one -> tables
arrays.py        columns and single rows -> tables
batch.py         tables <-> a record's data; records.py what records say; packing.py numbers

fold.py          records in, state out
catalogue.py     measurements and their fields; series.py the series of one, by number and by tags
names.py         what names may be, and tags as bytes; kinds.py the three kinds of values
tail.py          the newest points
runs.py          sorted runs of blocks; merging.py makes few of many; overlap.py what is in the way
block.py         points <-> a page; pages.py where pages are; index.py which block has what
lives.py         which records still matter; facts.py small things by number
digest.py        a checksum of it all

reading.py       points of series and times; asking.py questions about a field
aggregates.py    what avg, rate and the others are; windows.py how they are made
language.py      the pipe language; pipeline.py runs it; stages.py its steps
durations.py     durations and times, as text and as datetimes
answer.py        what comes back; report.py how many series there are

rules.py         retention and downsampling; standings.py how far they are; upkeep.py does it
"""
