"""Data files of the reservoir: pages of many sessions, and the table of their places."""
