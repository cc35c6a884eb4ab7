"""Who may do what: tokens, scopes, and the chained log of what was decided."""
