"""Users of the command language and their permissions."""
