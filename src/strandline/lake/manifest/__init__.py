"""Manifests: numbered versions of the list of lake files of a topic, and their commit."""
