"""Commands for the lake, the reservoir and pipelines."""
