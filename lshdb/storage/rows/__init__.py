"""Rows of the tables, read and written through a session."""
