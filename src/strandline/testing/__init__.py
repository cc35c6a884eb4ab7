"""A simulated world for tests: a disk that can lose power and a clock that is moved by hand."""
