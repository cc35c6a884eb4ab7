"""Deliveries: batches of processes that may not write to the store. staging, delivery, inbox."""
