"""Consumer groups: members share the records of a topic and acknowledge them."""
