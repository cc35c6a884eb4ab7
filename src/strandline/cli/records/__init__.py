"""Commands that append and read records and manage topics."""
