"""The ``strandline`` command. A folder per group of commands, each command in a file of its own."""
