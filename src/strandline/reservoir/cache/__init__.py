"""A local disk cache of the reservoir's files."""
