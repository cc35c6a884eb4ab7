"""Commands that run queries: the command language and SQL."""
