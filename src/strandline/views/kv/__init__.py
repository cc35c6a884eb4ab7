"""A key-value map: the newest record of a key is its value."""
