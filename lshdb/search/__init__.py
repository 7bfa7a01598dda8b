"""Questions to an index: query, pairs, verification, clusters."""
