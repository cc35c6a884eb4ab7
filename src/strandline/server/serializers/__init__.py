"""View values to and from the structs of the API."""
