"""What crosses the network, as values: bodies, records, errors. For server and client; pure."""
