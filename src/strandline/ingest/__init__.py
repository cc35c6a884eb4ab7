"""Appends of processes that do not have the store open: deliveries and view handoffs."""
