"""Relations of SQL: topics, views and tables as columns and rows."""
