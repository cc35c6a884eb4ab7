"""The command line: one file per group of commands, over the public face of the library."""
