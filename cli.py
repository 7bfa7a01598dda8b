"""The command line from a checkout: ``python cli.py add ...`` is ``lshdb add ...``.

Python looks for modules in the folder of the script first, so this checkout hides an lshdb that is
installed. Where the checkout has no compiled kernel for this Python and the installed lshdb has
one, the installed one runs, and a line on stderr says so. An editable install counts too.
"""

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec

CHECKOUT = os.path.dirname(os.path.realpath(__file__))


def has_kernel(folders: Iterable[str]) -> bool:
    """Return whether the package in these folders has a kernel that this Python can import."""
    rooms = [os.path.join(folder, "kernel") for folder in folders]
    return PathFinder.find_spec("compiled", rooms) is not None


def prefer_kernel() -> None:
    """Take the checkout out of the way of an installed lshdb that has the kernel which it lacks."""
    if has_kernel([os.path.join(CHECKOUT, "lshdb")]):
        return
    here = list(sys.path)
    sys.path[:] = [path for path in here if os.path.realpath(path) != CHECKOUT]
    installed = find_spec("lshdb")  # asks the finders of editable installs, too
    folders = list(installed.submodule_search_locations or ()) if installed is not None else []
    if not has_kernel(folders):
        sys.path[:] = here
        return
    sys.stderr.write(
        f"the checkout {CHECKOUT} has no compiled kernel for this Python: running lshdb from "
        f"{folders[0]}; pip install -e {CHECKOUT} builds it\n"
    )


if __name__ == "__main__":
    prefer_kernel()
    from lshdb.cli.launch import main

    main()
