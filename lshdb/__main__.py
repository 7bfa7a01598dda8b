"""``python -m lshdb``: the same command line as ``lshdb``."""

from lshdb.cli.launch import main

if __name__ == "__main__":
    main()
