"""What a transaction reads and what it changes."""
