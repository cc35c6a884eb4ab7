"""Output of commands: tables, JSON, CSV, Arrow and progress."""
