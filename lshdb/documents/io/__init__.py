"""Paths, patterns, pipes and compressed files -> bytes and lines."""
