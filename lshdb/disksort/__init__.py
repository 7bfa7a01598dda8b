"""Sorted sets on disk, larger than memory."""
