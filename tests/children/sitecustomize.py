"""Run by Python in each child process that has this folder on its ``PYTHONPATH``."""

import databases

databases.install()
