"""gaoya's one call in memory as a whole process: a file of JSON Lines to pairs, or to a clean file.

    python -m benchmarks.peers.gaoya_files pairs|dedup INPUT OUTPUT

Texts are in the field ``text`` and keys in ``id``. ``dedup`` keeps the first of similar documents.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
from gaoya.minhash import MinHashStringIndex

from benchmarks.peers._contract import NUM_PERM, THRESHOLD, WORDS_A_SHINGLE


def main() -> None:
    job, source, output = sys.argv[1:]
    lines = Path(source).read_bytes().splitlines(keepends=True)
    records = [orjson.loads(line) for line in lines]
    texts = [record["text"] for record in records]
    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=THRESHOLD,
        num_hashes=NUM_PERM,
        analyzer="word",
        lowercase=True,
        ngram_range=(WORDS_A_SHINGLE, WORDS_A_SHINGLE),
        id_container="smallvec",
    )
    index.par_bulk_insert_docs(list(range(len(texts))), texts)
    answers = index.par_bulk_query(texts, return_similarity=True)
    if job == "pairs":
        keys = [record["id"] for record in records]
        with open(output, "w", encoding="utf-8") as file:
            for number, near in enumerate(answers):
                file.writelines(
                    f"{keys[other]}\t{keys[number]}\t{similarity:.6f}\n"
                    for other, similarity in near
                    if other < number
                )
        return
    is_dropped = bytearray(len(lines))
    for number, near in enumerate(answers):
        is_dropped[number] = any(other < number and not is_dropped[other] for other, _ in near)
    with open(output, "wb") as clean:
        clean.writelines(line for line, drop in zip(lines, is_dropped, strict=True) if not drop)


if __name__ == "__main__":
    main()
