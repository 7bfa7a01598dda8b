"""Keeping an index in shape: statistics, compaction, other bands, checks, repair, upgrade."""
