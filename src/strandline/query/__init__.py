"""Questions to a store: a command language over event tables, and SQL over everything."""
