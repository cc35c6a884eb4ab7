"""Event tables: records with a schema, stored in columns."""
