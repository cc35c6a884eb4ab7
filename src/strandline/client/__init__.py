"""A client for a served store, with the methods and types of an embedded one."""
