"""Texts -> advice: draw, count, propose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from lshdb.advice.advice import Advice, Choice, ExamplePair, LabelAgreement
from lshdb.advice.aims import AIMS, check_aim, choice_of, propose
from lshdb.advice.differences import word_differences
from lshdb.advice.label_agreement import Label, Labels, agreement, best_agreement
from lshdb.advice.planted import PlantedPairs
from lshdb.advice.sampled_documents import DocumentSample, sample_of_index, sample_of_stream
from lshdb.advice.similarity_counts import SimilarityCounts, count_pairs
from lshdb.arguments import check_whole
from lshdb.documents.document import (
    Given,
    Rejected,
)
from lshdb.documents.frames import given_rows
from lshdb.documents.memory_tables import Table
from lshdb.errors import InputError, ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions, Parameters, check_parameters
from lshdb.params.s_curve import s_curve
from lshdb.phases.phase import OnProgress, telling
from lshdb.search.all_texts import has_texts
from lshdb.search.verification import MEMORY, check_limits
from lshdb.search.word_diff import readable_text
from lshdb.signatures.families import family_of
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter

__all__ = ["advise", "advise_on_index"]

SAMPLE = 100_000
_SAMPLE_SHARE = 4
"""The part of the memory that texts of the sample may take; shingles take the rest."""
_MEETINGS = 1_000_000_000
_OTHER_MEETINGS = 200_000_000
"""Work for the shingles that were asked about, and for others: seconds at some 5 ns."""
_SHOWN = 2_000
"""Characters of a text that an example has."""
_FEW = 20
"""Labels of a kind that are too few to tell."""
_NAMED = 5


def advise(
    documents: Iterable[Given] | Table,
    *,
    key: str | None = None,
    text: str | Sequence[str] | None = None,
    aim: str | None = None,
    labels: Iterable[Label] | None = None,
    sample: int = SAMPLE,
    memory: int = MEMORY,
    workers: int | None = None,
    tokenizer: Tokenizer | str | None = None,
    on_reject: Callable[[Rejected], None] | None = None,
    on_progress: OnProgress | None = None,
    **options: Unpack[Parameters],
) -> Advice:
    """Say which threshold and shingle to take for some texts; no index is made.

    Documents are drawn, and each is compared exactly with each other. If all of them fit, the
    numbers of pairs are counts; else they are estimates with an interval.

    Parameters
    ----------
    documents : iterable or table
        (key, text) or (key, tokens) pairs, the documents of :func:`lshdb.read_documents`, texts,
        or any table that :meth:`lshdb.Index.add` takes. Read once, as a stream.
    key : str, optional
        The column of the keys of a table; by default its rows are numbered from 0.
    text : str or sequence of str, optional
        The columns of its texts, as for :meth:`lshdb.Index.add`.
    aim : str, optional
        One of :func:`lshdb.aims`; by default parameters are proposed for each.
    labels : iterable of (str, str, bool), optional
        Keys of two documents, and whether they are near-duplicates, as from
        :func:`lshdb.read_labels`. Their texts are held in memory.
    sample : int
        Documents to draw, at least 2. Fewer are drawn where their texts take more than a quarter
        of ``memory``.
    memory : int
        Bytes for texts and shingles.
    workers : int, optional
        Threads; one per core by default. The result is the same.
    tokenizer : Tokenizer or str, optional
        As for :meth:`lshdb.Index.create`.
    on_reject : callable, optional
        Called with each rejected input.
    on_progress : callable, optional
        As for :meth:`lshdb.Index.add`.
    **options
        Parameters of :meth:`lshdb.Index.create`; with ``k``, no other k is proposed. Another
        ``seed`` draws other documents.

    Returns
    -------
    Advice

    Raises
    ------
    ParameterError
        A value is out of range, or the metric is not one of texts.
    InputError
        There are fewer than two documents, or what is given is no document.
    TokenizerError

    Notes
    -----
    Some seconds of processor time for the comparison, whatever the number of documents, besides
    reading and shingling: fewer are compared where their texts share much.
    """
    check_parameters(
        "advise", options,
        "key", "text", "aim", "labels", "sample", "memory", "workers", "tokenizer", "on_reject",
        "on_progress",
    )  # fmt: skip
    own_tokenizer = given_tokenizer(tokenizer)
    recorded = own_tokenizer.recorded if own_tokenizer is not None else ""
    params = CreateOptions(tokenizer=recorded, **options).params()
    if params.window is not None:
        raise ParameterError(
            "advice compares whole documents, and passages would cut them",
            hint="leave passages out, or ask an index of passages: its windows are compared",
        )
    seed = params.seed
    _check(params, aim, sample, seed, memory)
    split = splitter(params.tokenizer, own_tokenizer) if params.unit == "tokenizer" else None
    answers = Labels.of(labels) if labels is not None else None
    family = family_of(params, split)
    rows = given_rows(
        documents, key=key, text=text, vector=None, keep=(), source="", params=params,
        default_key=None,
    )  # fmt: skip
    with telling(on_progress):
        drawn = sample_of_stream(
            rows, family, most=sample, memory=memory // _SAMPLE_SHARE, seed=seed,
            named=answers.keys if answers else (), on_reject=on_reject,
        )  # fmt: skip
        advising = _Advising(
            params, drawn, split=split, seed=seed, memory=memory - memory // _SAMPLE_SHARE,
            workers=choose_workers(workers), is_fixed=options.get("k") is not None,
        )  # fmt: skip
        return advising.advice(aim, answers, lambda line, k: _new_index(line, k, options, recorded))


def advise_on_index(
    store: Store,
    family: Any,
    *,
    aim: str | None,
    labels: Iterable[Label] | None,
    sample: int,
    seed: int,
    memory: int,
    workers: int | None,
) -> Advice:
    """Say which threshold and shingle to take; see :meth:`lshdb.Index.advise`."""
    params = store.params
    _check(params, aim, sample, seed, memory)
    if not has_texts(params):
        raise ParameterError(
            "advice compares the texts of an index, and this one stores none",
            hint="give the files they came from: lshdb tune FILE..., or lshdb.advise(documents)",
        )
    answers = Labels.of(labels) if labels is not None else None
    with store.reading() as snapshot:
        drawn = sample_of_index(
            snapshot, most=sample, memory=memory // _SAMPLE_SHARE, seed=seed,
            named=answers.keys if answers else (),
        )  # fmt: skip
    advising = _Advising(
        params, drawn, split=family.split, seed=seed, memory=memory - memory // _SAMPLE_SHARE,
        workers=choose_workers(workers), is_fixed=False,
    )  # fmt: skip
    return advising.advice(aim, answers, lambda options, k: _of_index(params, options, k))


def _check(params: IndexParams, aim: object, sample: int, seed: int, memory: int) -> None:
    if params.kind.body != "text":
        raise ParameterError(
            f"advice is for texts, and the metric is {params.metric}",
            hint="lshdb tune shows what an index of other documents would find and cost",
        )
    check_aim(aim)
    check_whole("sample", sample, 2)
    check_whole("seed", seed, 0)
    check_limits(None, memory)


_PROPOSED = ("threshold", "k", "bands", "rows")
_FILES = {"stop_tokens": "FILE", "stop_words": "FILE|LANG"}
_FLAGS = {
    "lowercase": ("--lowercase", "--keep-case"), "store_text": ("", "--no-text"),
    "bag": ("--bag", ""), "strip_accents": ("--strip-accents", ""),
    "strip_punctuation": ("--strip-punctuation", ""),
}  # fmt: skip


def _new_index(
    threshold: list[str], k: list[str], options: Mapping[str, Any], tokenizer: str
) -> list[str]:
    """Return the command that makes an index of files, with the options that were given."""
    words = ["lshdb", "add", "INDEX", "FILE...", *threshold, *k]
    for name, value in options.items():
        if value is None or name in _PROPOSED:
            continue
        if name in _FLAGS:
            flag = _FLAGS[name][0 if value else 1]
            words += [flag] if flag else []
        else:
            words += ["--" + name.replace("_", "-"), _FILES.get(name, str(value))]
    return [*words, "--tokenizer", tokenizer.partition(" ")[0]] if tokenizer else words


def _of_index(params: IndexParams, options: list[str], k: list[str]) -> list[str]:
    """Return the command that answers from an index, or makes another."""
    if k:
        return ["lshdb", "reindex", "INDEX", "NEW", *options, *k]
    if float(options[1]) >= params.threshold:
        return ["lshdb", "pairs", "INDEX", *options]
    return ["lshdb", "reband", "INDEX", *options]


class _Advising:
    """One piece of advice: pairs are counted once for each shingle."""

    def __init__(
        self,
        params: IndexParams,
        sample: DocumentSample,
        *,
        split: Callable[[str], list[str]] | None,
        seed: int,
        memory: int,
        workers: int,
        is_fixed: bool,
    ) -> None:
        if sample.documents < 2:
            n = "one document" if sample.documents else "no document"
            raise InputError(
                f"there is {n}, and a pair takes two",
                hint="check the input" + (": see what was rejected" if sample.rejected else ""),
            )
        self._params, self._sample, self._split = params, sample, split
        self._seed, self._memory, self._workers = seed, memory, workers
        self._is_fixed = is_fixed
        self._counts: dict[int, SimilarityCounts] = {}
        self._own = self._counted(params.k)
        self._units = self._own.units
        self._planted = PlantedPairs(sample.bodies, seed)
        self._remarks: list[str] = []

    def advice(
        self,
        aim: str | None,
        labels: Labels | None,
        command: Callable[[list[str], list[str]], list[str]],
    ) -> Advice:
        """Return the advice for an aim, or for all."""
        sample = self._sample
        self._remark_on_sample()
        names = [aim] if aim is not None else [*AIMS]
        choices = [self._choice(name, command) for name in names]
        agreement = self._agreement(labels) if labels is not None else None
        if agreement is not None and agreement.threshold is not None:
            choices.insert(0, self._labelled(agreement, command))
        return Advice(
            params=self._params,
            documents=sample.documents,
            sampled=len(sample.keys),
            rejected=sample.rejected,
            units=self._units,
            seed=self._seed,
            histogram=self._own.histogram(),
            examples=tuple(self._example(*example) for example in self._own.examples),
            choices=tuple(choices),
            labels=agreement,
            curve=s_curve(self._params, steps=20),
            remarks=tuple(self._remarks),
        )

    def _family(self, k: int) -> Any:
        return family_of(replace(self._params, k=k), self._split)

    def _counted(self, k: int) -> SimilarityCounts:
        if k not in self._counts:
            self._counts[k] = count_pairs(
                self._sample, self._family(k), memory=self._memory, workers=self._workers,
                meetings=_MEETINGS if k == self._params.k else _OTHER_MEETINGS, seed=self._seed,
            )  # fmt: skip
        return self._counts[k]

    def _choice(self, name: str, command: Callable[[list[str], list[str]], list[str]]) -> Choice:
        aim = AIMS[name]
        threshold, reason, counts = propose(
            aim, self._params, self._planted, self._counted, self._family, is_fixed=self._is_fixed
        )
        return self._made(name, aim.purpose, threshold, reason, counts, command)

    def _labelled(
        self, agreement: LabelAgreement, command: Callable[[list[str], list[str]], list[str]]
    ) -> Choice:
        row = next(
            candidate for candidate in agreement.rows if candidate.threshold == agreement.threshold
        )
        reason = (
            f"of {agreement.yes + agreement.no:,} labelled pairs {row.found_yes + row.missed_no:,} "
            f"agree; precision {row.precision or 0.0:.3f}, recall {row.recall or 0.0:.3f}"
        )
        return self._made(
            "labels", "what the labels call near-duplicates", row.threshold, reason,
            self._counted(agreement.k), command,
        )  # fmt: skip

    def _made(
        self,
        name: str,
        purpose: str,
        threshold: float,
        reason: str,
        counts: SimilarityCounts,
        command: Callable[[list[str], list[str]], list[str]],
    ) -> Choice:
        k = [] if counts.k == self._params.k and not self._is_fixed else ["--k", str(counts.k)]
        return choice_of(
            name, purpose, threshold, reason, params=self._params, counts=counts,
            command=command(["--threshold", f"{threshold:g}"], k),
        )  # fmt: skip

    def _agreement(self, labels: Labels) -> LabelAgreement:
        ks = [self._params.k, *(k for k in self._counts if k != self._params.k)]
        texts = self._sample.named
        best = best_agreement([agreement(labels, texts, self._family(k)) for k in ks])
        self._remark_on_labels(best, len(ks))
        return best

    def _remark_on_labels(self, agreement: LabelAgreement, n_shingles: int) -> None:
        say = self._remarks.append
        if agreement.missing:
            keys = _listed([*map(repr, agreement.missing)])
            say(f"labels are left out of which there is no document: {keys}")
        if agreement.contradictions:
            pairs = [f"{left!r} and {right!r}" for left, right in agreement.contradictions]
            say(f"left out, as they are labelled both yes and no: {_listed(pairs)}")
        if not agreement.yes or not agreement.no:
            say(
                f"{agreement.yes:,} labels say yes and {agreement.no:,} no: without both, no "
                "threshold can be proposed"
            )
        elif min(agreement.yes, agreement.no) < _FEW:
            say(
                f"{agreement.yes:,} labels say yes and {agreement.no:,} no: fewer than {_FEW} of a "
                "kind leave much to chance, see the intervals"
            )
        if n_shingles > 1:
            say(
                f"of the shingles that were tried, those of {agreement.k} agree best with the "
                "labels"
            )
        say("precision and recall are those of the labelled pairs, which may not be like all pairs")

    def _remark_on_sample(self) -> None:
        sample, own, say = self._sample, self._own, self._remarks.append
        if own.compared == sample.documents:
            say(f"all {sample.documents:,} documents were compared, so pairs are counts")
            return
        share = own.scale
        say(
            f"{own.compared:,} of {sample.documents:,} documents were drawn and all pairs of them "
            f"compared; each stands for {share:,.1f} pairs, and intervals are at 99 %"
        )
        if own.compared < len(sample.keys):
            say(
                f"{len(sample.keys):,} were to be compared, but their shingles are too many for "
                "the memory, or too many texts share them: with longer shingles, or more memory, "
                "more are compared"
            )
        n_seen = int(own.seen[50:].sum())
        if n_seen < _FEW:
            say(
                f"the sample has {n_seen:,} of the pairs of similarity 0.5 or more, which says "
                "little; a larger sample has more"
            )

    def _example(self, near: float, left: int, right: int, level: float) -> ExamplePair:
        keys, bodies = self._sample.keys, self._sample.bodies
        left, right = sorted((left, right), key=keys.__getitem__)
        texts = readable_text(bodies[left]), readable_text(bodies[right])
        differences, n_differences = word_differences(*texts, steps=self._params.normalisation)
        return ExamplePair(
            near=near, key1=keys[left], key2=keys[right], similarity=level,
            text1=texts[0][:_SHOWN], text2=texts[1][:_SHOWN],
            differences=differences, n_differences=n_differences,
        )  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
