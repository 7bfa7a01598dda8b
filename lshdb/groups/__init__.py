"""Verified pairs -> clusters, and the questions that they answer."""
