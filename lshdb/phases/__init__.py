"""How far is long work? What it tells on the way (``phase.py``), and bars that show it."""
