"""``lshdb explain``: why two documents are a near-duplicate pair, or why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lshdb import Explanation, Index, IndexParams, KeyNotFoundError
from lshdb.cli._cells import harmless
from lshdb.cli._command import Argument, option
from lshdb.cli._diff import diff_in_words, diff_lines, diff_rows
from lshdb.cli._keys import document_key
from lshdb.cli._options import (
    Command,
    index_argument,
    page_or_record_options,
    require_body,
    vector_option,
)
from lshdb.cli._output import is_page_named, is_written_to_file, print_bytes, print_record
from lshdb.cli._passages import shown_passages
from lshdb.cli._words import element_in_words
from lshdb.threads import give_memory_back_at_once

if TYPE_CHECKING:
    from lshdb import Passage

__all__ = ["command"]


def _number(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isascii() or not value.isdecimal():
        raise click.BadParameter(f"{value!r} is not 'all' or a number from 0 on")
    return int(value)


@click.command("explain", cls=Command)
@index_argument
@click.argument("key1", metavar="KEY1", cls=Argument, missing="the key of a document")
@click.argument("key2", metavar="[KEY2]", required=False)
@option("--text", metavar="TEXT", help="Compare with this text instead of a second document.")
@vector_option("Compare with this vector")
@option(
    "--shingles",
    "most",
    callback=_number,
    default="5",
    show_default=True,
    metavar="N",
    help="Show this many shingles of both, and of each alone, spread over the documents; 0 for "
    "none, or all.",
)
@option(
    "--diff",
    "with_diff",
    is_flag=True,
    help="Also compare the texts word by word: what is deleted, inserted and moved.",
)
@option(
    "--html",
    "as_page",
    is_flag=True,
    help="Write a page for a browser, with both texts side by side. --output FILE.html alone "
    "does so, too.",
)
@page_or_record_options
@click.pass_context
def command(
    ctx: click.Context,
    index_path: str,
    key1: str,
    key2: str | None,
    *,
    text: str | None,
    vector: Any,
    most: int | None,
    with_diff: bool,
    as_page: bool,
    output_format: str | None,
) -> None:
    """Explain how similar KEY1 of INDEX is to KEY2, or to a text or vector, and why.

    Shows whether they are near-duplicates at the index's threshold and whether the index finds
    them: their similarity, exact and as estimated from their signatures; the bands in which the
    signatures agree (one band makes them a candidate pair); the probability of finding such a
    pair; and the shingles that both have or only one has.

    Without stored texts there are no shingles to show, and the similarity is the estimate. tsv and
    csv write one field per line, and one item per line for lists; jsonl writes one object.

    Of an index of passages, KEY1 and KEY2 are documents, and the passages that both have are
    listed, compared word by word; or they are two windows, such as KEY#0-1200.

    With --diff, [-words-] are in the first text alone, {+words+} in the second alone, and
    {>words>} and {<words<} were moved. Line numbers are those of the texts as they were added.

    \b
    lshdb explain news.lshdb article-17 article-42
    lshdb explain news.lshdb article-17 article-42 --diff
    lshdb explain news.lshdb article-17 article-42 -o pair.html
    lshdb explain news.lshdb article-17 --text "the quick brown fox jumps over the lazy dog"
    """
    if [key2 is None, text is None, vector is None].count(False) != 1:
        raise click.UsageError("give one of KEY2, --text and --vector", ctx)
    if as_page and is_written_to_file() and not is_page_named():
        raise click.UsageError("--html writes a page: name a file that ends in .html", ctx)
    as_page = as_page or (is_page_named() and output_format is None)
    if as_page and (output_format is not None or with_diff):
        raise click.UsageError(
            "a page has a form of its own, with the diff; leave --diff and --format out", ctx
        )
    give_memory_back_at_once()
    with Index.open(index_path) as index:
        params = index.params
        require_body(index, text=text, vector=vector)
        key1, key2 = document_key(index, key1), document_key(index, key2)
        body = text if vector is None else vector
        if as_page:
            print_bytes([index.explain_page(key1, key2, body=body).encode()])
            return
        if params.window is not None and key2 is not None:
            try:
                passages = index.explain_passages(key1, key2, with_text=True)
            except KeyNotFoundError:  # these may be two windows
                if key1 not in index or key2 not in index:
                    raise
            else:
                if with_diff:
                    raise click.UsageError("passages are compared already; --diff takes windows")
                _print_passages(key1, key2, passages, output_format)
                return
        explanation = index.explain(key1, key2, body=body)
        diff = index.diff(key1, key2, body=body) if with_diff else None
    fields, shown = _fields(explanation, params, most), _in_table(explanation, params, most)
    if diff is None:
        print_record(fields, output_format, shown=shown)
        return
    print_record(
        fields | {"diff": tuple(diff_rows(diff))},
        output_format,
        shown=shown | {"diff": diff_in_words(diff)},
        below=partial(diff_lines, diff),
    )


def _print_passages(
    key1: str, key2: str, passages: Sequence[Passage], output_format: str | None
) -> None:
    """Show the passages that two documents share."""
    names = ("start1", "end1", "words1", "start2", "end2", "words2", "similarity", "method")
    fields = {
        "key1": key1,
        "key2": key2,
        "n_passages": len(passages),
        "words": sum(passage.words1 for passage in passages),
        "passages": tuple(
            {
                **{name: getattr(passage, name) for name in names},
                "text1": passage.text1,
                "text2": passage.text2,
            }
            for passage in passages
        ),
    }
    shown = {"passages": shown_passages(passages) or "none"}
    print_record(fields, output_format, shown=shown)


def _fields(explanation: Explanation, params: IndexParams, most: int | None) -> dict[str, Any]:
    value = params.curve.value
    lists = {"shared": explanation.shared, "only1": explanation.only1, "only2": explanation.only2}
    return {
        "key1": explanation.key1,
        "key2": explanation.key2,
        "near_duplicate": explanation.is_near_duplicate,
        "threshold": params.threshold,
        "exact_copies": explanation.are_copies,
        "exact": None if explanation.exact is None else value(explanation.exact),
        "estimate": None if explanation.estimate is None else value(explanation.estimate),
        "equal_slots": explanation.equal_slots,
        "num_perm": explanation.num_perm,
        "candidate": explanation.is_candidate,
        "matched_bands": explanation.matched_bands,
        "bands": explanation.bands,
        "rows": explanation.rows,
        "recall": explanation.recall,
        "found": explanation.is_found,
        **{
            f"n_{name}": None if shingles is None else len(shingles)
            for name, shingles in lists.items()
        },
        **{name: _listed(shingles, most) for name, shingles in lists.items()},
    }


def _sample(shingles: Sequence[str], most: int | None) -> dict[str, int]:
    """Return shingles from the whole list at equal steps, with their counts."""
    counts = Counter(shingles)
    distinct = list(counts)
    if most is not None and most < len(distinct):
        last, steps = len(distinct) - 1, max(most - 1, 1)
        distinct = [distinct[number * last // steps] for number in range(most)]
    return {shingle: counts[shingle] for shingle in distinct}


def _listed(shingles: Sequence[str] | None, most: int | None) -> tuple[str, ...] | None:
    """Return the shingles of the sample for data formats, each as often as it counts."""
    if shingles is None:
        return None
    return tuple(_readable(shingle) for shingle in Counter(_sample(shingles, most)).elements())


def _readable(shingle: str) -> str:
    r"""Show the bytes of a character that was cut in two as ``\xe9``."""
    return shingle.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# In a table


def _in_table(explanation: Explanation, params: IndexParams, most: int | None) -> dict[str, str]:
    key1 = harmless(explanation.key1)
    body_name = f"the {params.kind.body}"
    what = "distance" if params.kind.is_distance else "similarity"
    key2 = body_name if explanation.key2 is None else harmless(explanation.key2)
    # An empty text leaves a field out: another field's line says the same.
    texts = dict.fromkeys(("threshold", "equal_slots", "num_perm", "bands", "rows"), "")
    texts |= dict.fromkeys(("n_shared", "n_only1", "n_only2"), "")
    texts |= {
        "key1": key1,
        "key2": f"({body_name} given)" if explanation.key2 is None else key2,
        "near_duplicate": f"{_yes(explanation.is_near_duplicate)}, the threshold is "
        f"{params.threshold:g}",
        "exact_copies": _yes(explanation.are_copies),
        "exact": _exact(explanation, params),
        "estimate": _estimate(explanation, params),
        "candidate": _candidate(explanation),
        "matched_bands": _bands(explanation),
        "recall": f"{_probability(explanation.recall)}, the probability that this index finds a "
        f"pair of {what} {params.curve.value(explanation.similarity):.6f}",
        "found": _found(explanation, params),
        "shared": _lines(explanation.shared, "in both", params, most),
        "only1": _lines(explanation.only1, f"only in {key1}", params, most),
        "only2": _lines(explanation.only2, f"only in {key2}", params, most),
    }
    if explanation.shared is None and not params.kind.is_dense:
        texts["shared"] = "not available: texts are not stored"
    if explanation.key1 == explanation.key2:
        texts["key2"] = f"{key2} (the same document)"
    return texts


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _exact(explanation: Explanation, params: IndexParams) -> str:
    if explanation.exact is None:
        bodies = "vectors" if params.kind.is_dense else "texts"
        return f"not available: {bodies} are not stored"
    said = f"{params.curve.value(explanation.exact):.6f}"
    if params.kind.body == "weights" and not explanation.are_copies:
        return said
    if explanation.shared is None or explanation.only1 is None or explanation.only2 is None:
        return f"{said}, by the hash of their contents" if explanation.are_copies else said
    either = len(explanation.shared) + len(explanation.only1) + len(explanation.only2)
    return f"{said}, {len(explanation.shared):,} of {either:,} shingles are in both"


def _estimate(explanation: Explanation, params: IndexParams) -> str:
    if explanation.estimate is None:
        return f"none: without a {element_in_words(params)} there is no signature"
    value = params.curve.value
    said = (
        f"{value(explanation.estimate):.6f}, {explanation.equal_slots:,} of "
        f"{explanation.num_perm:,} slots are equal"
    )
    deviation = params.deviation_at(value(explanation.similarity))
    return f"{said}; standard deviation {deviation:.3f}" if deviation else said


def _candidate(explanation: Explanation) -> str:
    matched = len(explanation.matched_bands)
    rows = f"of {explanation.rows} rows" if explanation.rows > 1 else "of 1 row"
    return f"{_yes(explanation.is_candidate)}, {matched} of {explanation.bands} bands {rows} match"


def _bands(explanation: Explanation) -> str:
    if len(explanation.matched_bands) == explanation.bands > 1:
        return f"all, 0 to {explanation.bands - 1}"
    return " ".join(map(str, explanation.matched_bands))


def _probability(value: float) -> str:
    """Write four decimals, but never round what is nearly certain to certain."""
    return "above 0.9999" if 0.99995 <= value < 1 else f"{value:.4f}"


def _found(explanation: Explanation, params: IndexParams) -> str:
    """Say whether the index finds the pair, and why if not."""
    if explanation.key1 == explanation.key2:
        return "no: a document does not form a pair with itself"
    if explanation.is_found:
        return "yes"
    if explanation.estimate is None:
        element = element_in_words(params) if params.kind.is_dense else "shingle"
        return f"no: a document without a {element} is not similar to anything"
    if not explanation.is_near_duplicate:
        return "no: not similar enough"
    if not explanation.is_candidate:
        return "no: the pair is missed, because no band matches"
    return "no: the pair is missed, because too few slots are equal for the exact comparison"


def _lines(
    shingles: Sequence[str] | None, where: str, params: IndexParams, most: int | None
) -> str:
    """Write the number of shingles, and some of them, one per line."""
    if shingles is None:
        return ""
    sample = _sample(shingles, most)
    said = f"{len(shingles):,} {'shingle' if len(shingles) == 1 else 'shingles'} {where}"
    n_distinct = len(set(shingles))
    if not sample:
        return said
    said += f", {len(sample):,} of them:" if len(sample) < n_distinct else ":"
    return "\n".join([said, *(_item(*item, unit=params.unit) for item in sample.items())])


def _item(shingle: str, times: int, *, unit: str) -> str:
    """Write a shingle, in quotes if blanks at its ends count; a shingle of lines line by line."""
    text = _readable(shingle)
    if unit == "line":
        text = "\n  ".join(map(harmless, text.split("\n")))
    elif unit in ("char", "byte"):
        text = f'"{harmless(text)}"'
    else:
        text = harmless(text)
    return f"- {text} ({times:,} times)" if times > 1 else f"- {text}"
