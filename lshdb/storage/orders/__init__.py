"""Frozen orders: sorted bucket keys in files, for look-ups without SQL."""
