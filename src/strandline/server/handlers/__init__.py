"""Work of route handlers that several routes share."""
