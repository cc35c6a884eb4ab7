"""Work over a whole store, larger than one append."""
