"""Verified pairs -> clusters, and the questions that are answered from them."""
