"""daft's ``minhash`` as a whole process: a file of JSON Lines to pairs, or to a clean file.

    python -m benchmarks.peers.daft_files pairs|dedup INPUT OUTPUT

Texts are in the field ``text`` and keys in ``id``. daft signs texts, and groups their bands, as its
own examples do. Candidates are not verified: its data frames have nothing for that. ``dedup`` keeps
the first of the documents that candidates connect.
"""

from __future__ import annotations

import sys
from pathlib import Path

import daft
import numpy as np
from daft import col

from benchmarks.peers._contract import WORDS_A_SHINGLE
from lshdb.search.components import connect

BANDS, ROWS = 16, 6


def main() -> None:
    job, source, output = sys.argv[1:]
    documents = daft.read_json(source).select("id", "text")
    documents = documents.with_column("place", daft.functions.monotonically_increasing_id())
    text = col("text").normalize(lowercase=True, nfd_unicode=True, white_space=True)
    rows = text.minhash(num_hashes=BANDS * ROWS, ngram_size=WORDS_A_SHINGLE, hash_function="xxhash")
    bands = documents.select("id", "place", rows.chunk(ROWS).alias("slots"))
    bands = bands.with_column("band", daft.lit(list(range(BANDS)))).explode("slots", "band")
    name = "id" if job == "pairs" else "place"
    buckets = bands.groupby("band", "slots").agg(col(name).list_agg().alias("members"))
    shared = buckets.where(col("members").length() > 1).select("members")
    if job == "pairs":
        shared = shared.with_column("other", col("members")).explode("members").explode("other")
        pairs = shared.where(col("members") < col("other")).distinct().to_pydict()
        with open(output, "w", encoding="utf-8") as file:
            ends = zip(pairs["members"], pairs["other"], strict=True)
            file.writelines(f"{one}\t{other}\n" for one, other in ends)
        return
    firsts = shared.with_column("first", col("members").list_min()).explode("members").distinct()
    ends = firsts.to_arrow()
    left, right = (ends.column(at).to_numpy().astype(np.int64) for at in ("first", "members"))
    nodes, roots = connect(left, right)
    lines = Path(source).read_bytes().splitlines(keepends=True)
    drops = set(nodes[nodes != roots].tolist())
    with open(output, "wb") as clean:
        clean.writelines(line for place, line in enumerate(lines) if place not in drops)


if __name__ == "__main__":
    main()
