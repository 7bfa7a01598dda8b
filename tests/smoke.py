"""An installed lshdb at work, in a second: ``python tests/smoke.py``. Wheels are tried with it.

It imports the lshdb that is installed, not this checkout, and needs nothing else.
"""

import tempfile
from pathlib import Path

from lshdb import Index, kernel_name


def main() -> None:
    name = kernel_name()
    if not name.startswith("compiled ("):
        raise SystemExit(f"the wheel has no compiled kernel: {name}")
    text = "one text of some words that comes twice, with a small change near its end: "
    with tempfile.TemporaryDirectory() as folder:
        with Index.create(Path(folder) / "x.lshdb", threshold=0.5) as index:
            index.add([("a", text + "here"), ("b", text + "there"), ("c", "something else")])
        with Index.open(Path(folder) / "x.lshdb") as index:
            pairs = [(pair.key1, pair.key2) for pair in index.pairs()]
            findings = index.check()
    if pairs != [("a", "b")] or findings:
        raise SystemExit(f"wrong answers: {pairs}, {findings}")
    print(f"smoke test passed, kernel {name}")


if __name__ == "__main__":
    main()
