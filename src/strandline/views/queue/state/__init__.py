"""State of a queue in memory: job table, leases, timers, and their pages."""
