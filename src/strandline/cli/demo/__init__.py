"""``strandline demo``: a server with a small shop whose data keeps coming."""
