"""An event table: records with a schema, in columns that can be asked."""
