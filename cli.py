"""The command line from a checkout: ``python cli.py add ...`` is ``lshdb add ...``."""

from lshdb.launching import main

if __name__ == "__main__":
    main()
