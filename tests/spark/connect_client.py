"""A client of Spark Connect, and the server that it starts.

    python -m tests.spark.connect_client FOLDER QUESTION...

Prints what ``lshdb.spark`` answers about a few documents, and what an index in a dataset says of
them, as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests import spark_session
from tests.conftest import family_corpus

__all__ = ["CORPUS", "answers"]

CORPUS = sorted(family_corpus(3, families=3))


def lines(frame: Any) -> list[list[Any]]:
    """The rows of an answer, in their order."""
    return sorted(map(list, frame.collect()))


def answers(spark: Any, folder: Path, asked_for: Collection[str]) -> dict[str, Any]:
    """Ask about the documents, and an index that they come into."""
    import lshdb.spark

    def frame(documents: list[tuple[str, str]]) -> Any:
        return spark.createDataFrame(documents, "id string, text string")

    every, asked = frame(CORPUS), {"threshold": 0.5}
    index = lshdb.spark.Index.create(str(folder / "d"), spark=spark, **asked)
    questions: dict[str, Callable[[], Any]] = {
        "session": lambda: type(spark).__module__,
        "pairs": lambda: lines(lshdb.spark.pairs(every, **asked)),
        "clusters": lambda: lines(lshdb.spark.clusters(every, **asked)),
        "kept": lambda: lines(lshdb.spark.deduplicate(every, **asked).select("id")),
        "added": lambda: index.add(every).added,
        "pairs of the index": lambda: lines(index.pairs()),
        "hits": lambda: lines(index.query(frame(CORPUS[:1]))),
    }
    found = {name: questions[name]() for name in asked_for}
    lshdb.spark.release(spark)
    return found


def main() -> None:
    """Start the server and ask."""
    folder = Path(sys.argv[1])
    session = spark_session.start(folder, master="local[2]", is_remote=True)
    try:
        print(json.dumps(answers(session, folder, sys.argv[2:])))
    finally:
        session.stop()


if __name__ == "__main__":
    main()
