"""Which threshold and shingle to take: what a sample of the texts says."""
