"""The pipe language of metrics: parser, executor, windows and results."""
