"""The command line from a checkout: ``python cli.py add ...`` is ``lshdb add ...``.

Python looks for modules in the script's folder first, so this checkout hides an installed lshdb.
If the checkout's kernel is not compiled and the installed lshdb has one, the installed one runs and
a note says so.
"""

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder

CHECKOUT = os.path.dirname(os.path.realpath(__file__))


def has_kernel(folders: Iterable[str]) -> bool:
    """Return whether the package in these folders has a kernel that this Python can import."""
    rooms = [os.path.join(folder, "signatures") for folder in folders]
    return PathFinder.find_spec("_kernels", rooms) is not None


def prefer_kernel() -> None:
    """Take the checkout out of ``sys.path`` if only an installed lshdb has a compiled kernel."""
    others = [path for path in sys.path if os.path.realpath(path) != CHECKOUT]
    installed = PathFinder.find_spec("lshdb", others)
    folders = list(installed.submodule_search_locations or ()) if installed is not None else []
    if has_kernel([os.path.join(CHECKOUT, "lshdb")]) or not has_kernel(folders):
        return
    sys.path[:] = others
    sys.stderr.write(
        f"the compiled kernel is not built in the checkout {CHECKOUT}: running lshdb from "
        f"{folders[0]}; pip install -e {CHECKOUT} builds it\n"
    )


if __name__ == "__main__":
    prefer_kernel()
    from lshdb.cli.launch import main

    main()
