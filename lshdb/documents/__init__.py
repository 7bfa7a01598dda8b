"""Read documents from files, pipes and Python objects: one module per input format."""
