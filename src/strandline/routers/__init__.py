"""Routers: records of one topic forwarded into another, with durable cursors."""
