"""Fixed-size rows in ``.npy`` files: signatures and vectors."""
