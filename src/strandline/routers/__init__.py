"""Routers: forward records of one topic into another, with durable cursors."""
