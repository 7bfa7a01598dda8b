"""The command line: one file per command, and each command is one public method of ``Index``.

``launch.py`` is the way in. It decides what Ctrl-C does before ``_group.py`` and all the rest are
imported, so nothing is imported here.
"""
