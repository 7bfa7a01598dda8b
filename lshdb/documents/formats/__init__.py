"""One file a format: bytes -> documents."""
