"""Commands for views: key-value maps, queues, series, metrics and consumer groups."""
