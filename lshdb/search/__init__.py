"""Questions to an index: query, nearest, pairs, join, explain and SQL; how pairs are verified."""
