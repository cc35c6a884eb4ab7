"""The routes: a file for each kind of resource."""
