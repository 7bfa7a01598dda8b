"""Read documents from bytes: one module per format."""
