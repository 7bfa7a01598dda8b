"""The SQL tables of an index, and the rows in them."""
