"""Where an index lies: its directory and its lock; how it is put there and copied."""
