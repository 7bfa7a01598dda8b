"""Posting runs: bucket keys and signature ids, sorted, merged now and then."""
