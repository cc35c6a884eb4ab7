"""Rebuild of a view from its log, split into tasks that run the view's own fold."""
