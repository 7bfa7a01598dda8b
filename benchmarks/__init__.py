"""Measurements of lshdb; each module says what it measures and how it is run."""
