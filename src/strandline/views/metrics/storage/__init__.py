"""Storage of points: tail, sorted runs, blocks, and the series they belong to."""
