"""The public interface of a topic: append, read, follow, alter, delete."""
