"""Settings of a store, its views and its pipelines, and the memory budget."""
