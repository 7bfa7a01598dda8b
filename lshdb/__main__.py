"""``python -m lshdb``: the same command line as ``lshdb``."""

from lshdb.launching import main

if __name__ == "__main__":
    main()
