"""Tokens, scopes, tickets and the chained audit log."""
