"""Clock, disk, processes, sockets and threads: the only package that calls the system."""
