"""Bands in SQL, one row a signature, and the postings that they are."""
