"""``python -m lshdb``: the same command line as ``lshdb``."""

from lshdb.cli import main

if __name__ == "__main__":
    main()
