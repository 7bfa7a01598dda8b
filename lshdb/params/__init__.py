"""What an index is made of: its parameters, the curve they promise, and the choice of bands."""
