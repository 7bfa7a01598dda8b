"""Where an index lies: its directory, its lock, how it comes to its place and is copied."""
