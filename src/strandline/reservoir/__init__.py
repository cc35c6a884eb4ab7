"""The reservoir: pages of bytes, checkpointed together, stored in an object store."""
