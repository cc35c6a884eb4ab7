"""The world outside: the only package that may touch clock, disk and randomness."""
