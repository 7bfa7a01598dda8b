"""Turn paths, patterns, pipes and compressed files into bytes and lines."""
