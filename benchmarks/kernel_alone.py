"""How fast does the kernel make rows of normalised texts, and normalise texts, in memory?

    python -m benchmarks.kernel_alone [CORPUS.jsonl[.gz]...] [--repeats 5] [--threads 1,2]

The first table has the corpora: normalised texts become signatures of 5-word shingles, on some
threads. The second has every kind of text (``_kinds.py``): normalising alone, in the kernel and by
Python's own functions, processor time. The first time fills the parts of the kernel's table that a
script needs, and normalises segments that it has not met. Figures are medians.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks._corpora import Corpus, from_file, texts_of
from benchmarks._kinds import KINDS, texts
from benchmarks._tables import facts, table
from benchmarks.peers._contract import NUM_PERM, WORDS_A_SHINGLE
from lshdb.shingling import normalise
from lshdb.signatures import sign_contents
from lshdb.signatures.sets import normalise_texts
from lshdb.threads import work_ahead

_TEXTS_A_TASK = 2000


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(()))
    with tempfile.TemporaryDirectory() as name:
        corpora = [from_file(path, Path(name), options.text_field) for path in options.corpus]
        if corpora:
            head = ["corpus", *(f"MB/s, {threads} threads" for threads in options.threads)]
            body = [_rates(corpus, options) for corpus in corpora]
            print("\nNormalised texts to rows\n")
            print(table(head, body, markdown=options.markdown), flush=True)
    chosen = tuple(options.kinds.split(","))
    body = [_normalising(kind, options) for kind in KINDS if kind.startswith(chosen)]
    head = ["kind of text", "kernel, first ns/byte", "kernel ns/byte", "Python ns/byte"]
    print(f"\nNormalising alone: {options.kind_bytes:,} bytes of each kind, one thread\n")
    print(table(head, body, markdown=options.markdown))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_alone", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", nargs="*", type=Path, help="JSONL, plain or .gz")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", default="1,2", help="of the first table (1,2)")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--kinds", default="", help="of text, whose names begin so: a,b")
    parser.add_argument("--kind-bytes", type=int, default=1_000_000, help="of each kind of text")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    options.threads = [int(count) for count in options.threads.split(",")]
    if min(options.threads) < 1 or options.repeats < 1:
        parser.error("--threads and --repeats are at least 1")
    return options


def _rates(corpus: Corpus, options: argparse.Namespace) -> list[str]:
    contents = normalise_texts(list(texts_of(corpus)))
    size = sum(len(content.encode()) for content in contents)
    tasks = [
        contents[start : start + _TEXTS_A_TASK] for start in range(0, len(contents), _TEXTS_A_TASK)
    ]
    sign = partial(
        sign_contents, unit="word", k=WORDS_A_SHINGLE, bag=False, scheme="fss",
        num_perm=NUM_PERM, seed=1,
    )  # fmt: skip

    def run(threads: int) -> None:
        for _ in work_ahead(sign, iter(tasks), workers=threads):
            pass

    rates = (
        size / median(_seconds(time.perf_counter, partial(run, threads), options.repeats)) / 1e6
        for threads in options.threads
    )
    return [corpus.name, *(f"{rate:,.0f}" for rate in rates)]


def _normalising(kind: str, options: argparse.Namespace) -> list[str]:
    some = list(texts(kind, options.kind_bytes))
    size = sum(len(text.encode()) for text in some)
    clock = time.process_time
    first = _seconds(clock, lambda: normalise_texts(some), 1)[0]
    kernel = median(_seconds(clock, lambda: normalise_texts(some), options.repeats))
    python = median(_seconds(clock, lambda: list(map(normalise, some)), options.repeats))
    return [kind, *(f"{seconds / size * 1e9:,.1f}" for seconds in (first, kernel, python))]


def _seconds(clock: Callable[[], float], work: Callable[[], object], times: int) -> list[float]:
    spent = []
    for _ in itertools.repeat(None, times):
        begun = clock()
        work()
        spent.append(clock() - begun)
    return spent


if __name__ == "__main__":
    main()
