"""A work queue on two topics: jobs, and the leases under which they are claimed."""
