"""Everything that an index answers, to be compared with what another one answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from lshdb import Document, Index
from tests.conftest import family_corpus, pair_set


def answers(index: Index, *, own_numbers: bool = True) -> dict[str, Any]:
    """Pairs, clusters, neighbours, copies and documents.

    Without ``own_numbers`` what only says where in this index something lies, and by which of its
    batches it came, is left out.
    """
    assert index.check() == []
    keys = [str(key) for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id").rows]
    shown = {key: index.show(key) for key in keys}
    if not own_numbers:
        for key, one in shown.items():
            document = replace(one.document, doc_id=0, signature_id=None, batch_id=0)
            shown[key] = replace(one, document=document, copies=tuple(sorted(one.copies)))
    found: dict[str, Any] = {
        "pairs": pair_set(index),
        "lower": pair_set(index, threshold=0.3, verify="signature"),
        "queries": {
            key: {(hit.key, hit.similarity) for hit in index.query(key=key)} for key in keys
        },
        "shown": shown,
        "clusters": {(one.label, tuple(sorted(one.keys))) for one in index.clusters()},
        "neighbors": {
            (neighbor.key, neighbor.neighbor, round(neighbor.similarity, 9))
            for neighbor in index.neighbors(top=1000)
        },
    }
    if own_numbers:
        found["order"] = keys
        found["batches"] = [asdict(batch) for batch in index.batches()]
        found["since"] = pair_set(index, since="last")
    return found


WORDLESS = [
    (f"{name} {number}", text)
    for name, text in (
        ("dots", "..."),
        ("more dots", ".... ..."),
        ("emoji", "\U0001f389\U0001f389"),
        ("family", "\U0001f468\u200d\U0001f469\u200d\U0001f467"),
        ("braille", "\u2801\u2803\u28ff"),
        ("box", "\u250c\u2500\u2510\n\u2502 \u2502"),
        ("sums", "\u2211\u222b\u2264"),
        ("mark", "\u0301 \u093f"),
        ("currency", "$$ \u20ac"),
    )
    for number in (1, 2)
]
"""Texts without a word, each twice."""


def lively_index(make_index: Callable[..., Index], name: str, **parameters: Any) -> Index:
    """An index that has been lived with.

    Copies, documents without tokens, ready tokens, several adds and runs, replaced and removed
    documents, edges that are behind, and texts of other scripts.
    """
    parameters = {"threshold": 0.5, **parameters}
    index = make_index(name, **parameters)
    corpus = family_corpus(11, families=8)
    kept = [Document(key, body, fields={"place": key[:3]}) for key, body in corpus[:30]]
    index.add(kept, source="first", night="monday")
    index.advance("press")
    list(index.clusters())
    index.add(
        [
            ("empty", ""),
            ("blank", " \n "),
            ("tokens", ["the", "Same", "tokens", "twice", "over"]),
            ("tokens 2", ["the", "Same", "tokens", "twice", "over"]),
            ("no tokens", []),
            ("ключ\t1", "слово за слово и дело за делом " * 4),
            *corpus[30:],
        ],
        source="second",
    )
    index.add([(corpus[3][0], corpus[8][1]), (corpus[4][0], "something else " * 9)], source="third")
    index.remove([corpus[1][0], corpus[2][0], "no tokens"])
    index.add(corpus[5:9], source="again")
    return index
