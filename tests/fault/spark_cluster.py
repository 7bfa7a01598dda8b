"""A life of a dataset on two executors, of which one is killed in every stage.

    python -m tests.fault.spark_cluster FOLDER {0,1}

The second argument says whether any is killed. Prints the answers as a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tests import spark_session
from tests.conftest import family_corpus

PAUSE = 0.02
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.shuffle.io.retryWait": "200ms",
}


class Killer(threading.Thread):
    """Kills an executor in each stage that begins while two are alive.

    Attributes
    ----------
    killed : int
    """

    def __init__(self, spark: Any) -> None:
        super().__init__(daemon=True)
        self._tracker = spark.sparkContext.statusTracker()
        self._seen: set[int] = set()
        self._ends = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while not self._ends.wait(PAUSE):
            fresh = set(self._tracker.getActiveStageIds()) - self._seen
            alive = executors()
            if fresh and len(alive) > 1:
                self._seen |= fresh
                os.kill(alive[self.killed % 2], signal.SIGKILL)
                self.killed += 1

    def end(self) -> None:
        self._ends.set()
        self.join()


def executors() -> list[int]:
    """Processes of executors below this one, in order."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and _is_below(int(place.name)):
                found.append(int(place.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def _is_below(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        status = Path(f"/proc/{process}/stat").read_text()
        process = int(status.rpartition(")")[2].split()[1])
    return False


def main() -> None:
    folder, kills = Path(sys.argv[1]), sys.argv[2] == "1"
    # Workers of Spark begin in folders of their own and import lshdb and these tests.
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    spark = spark_session.start(folder / "spark", master="local-cluster[2,1,1024]", **SETTINGS)
    killer = Killer(spark)
    if kills:
        killer.start()
    answers = _life(spark, folder)
    if kills:
        killer.end()
    print(json.dumps({"killed": killer.killed, "answers": answers}))
    spark_session.stop(spark, folder / "spark")


def _life(spark: Any, folder: Path) -> list[Any]:
    from lshdb import spark as questions
    from lshdb.spark.dataset_index import Index

    documents = [(key, body) for key, body in family_corpus(3, families=20)
                 if isinstance(body, str)]  # fmt: skip
    df = spark.createDataFrame(documents, "id string, text string").repartition(4)
    index = Index.create(str(folder / "d"), threshold=0.5, documents=1)
    done = index.add(df)
    index.remove([documents[0][0]])
    frames = [
        index.pairs(),
        questions.pairs(df, threshold=0.5),
        questions.clusters(df, threshold=0.5),
        questions.dedup(df, threshold=0.5, max_bucket=3),
    ]
    lines = [sorted(map(list, frame.collect()), key=repr) for frame in frames]
    return [done.added, done.copies, index.check(), *lines]


if __name__ == "__main__":
    main()
