"""References: RIS, PubMed, EndNote XML, BibTeX. A bad record is one rejection, with its place."""

from __future__ import annotations

import builtins
import gzip
import io
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb import InputError
from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.read import read_documents
from lshdb.errors import install_command

Read = Callable[..., tuple[list[Document], list[Rejected]]]

TITLE = "Effects of aspirin: a randomised trial"
ABSTRACT = "Background: aspirin is used widely. We studied it."
RIS = f"""\ufeffTY  - JOUR
ID  - emb-1
AN  - 77
TI  - {TITLE}
AU  - Müller, Anna
AU  - Smith, B
PY  - 2019/05/01/
JO  - Lancet
VL  - 393
IS  - 4
SP  - 123
EP  - 9
DO  - https://doi.org/10.1016/S0140-6736(19)1
AB  - Background: aspirin is used widely.
We studied it.
DB  - Embase
ER  -

2.
TY  - JOUR
T1  - Only a title
Y1  - 2001
AN  - 88
ER  -
"""
NBIB = f"""
PMID- 31000001
OWN - NLM
TI  - Effects of aspirin:
      a randomised trial
PG  - 123-9
LID - S0140-6736(19)1 [pii]
LID - 10.1016/S0140-6736(19)1 [doi]
AB  - {ABSTRACT}
FAU - Müller, Anna
AU  - Muller A
FAU - Smith, B
DP  - 2019 May 1
JT  - Lancet
VI  - 393
IP  - 4

PMID- 31000002
TI  - Only a title
DP  - 2001
"""
BIB = """% a comment
@string{lan = "Lancet"}
@comment{ whatever }
@preamble{ "x" }
@article{muller2019,
  title = {Effects of {Aspirin}: a randomised trial},
  author = {M{\\"u}ller, Anna and Smith, B},
  journal = lan, volume = 393, number = 4, year = 2019, pages = {123--9},
  doi = {doi:10.1016/S0140-6736(19)1},
  abstract = {Background: aspirin is used widely. We studied it.},
}

@misc{second, title = "Only a title", date = "2001-03"}
"""
XML = f"""<?xml version="1.0" encoding="UTF-8" ?><xml><records><record><rec-number>1</rec-number>\
<contributors><authors><author><style face="normal">Müller, Anna</style></author>\
<author>Smith, B</author></authors></contributors><titles><title><style>Effects of </style>\
<style>aspirin: a randomised trial</style></title><secondary-title>No</secondary-title></titles>\
<periodical><full-title>Lancet</full-title></periodical><pages>123-9</pages><volume>393</volume>\
<number>4</number><dates><year><style>2019</style></year></dates><abstract>{ABSTRACT}</abstract>\
<electronic-resource-num>10.1016/S0140-6736(19)1</electronic-resource-num>\
<remote-database-name>CINAHL</remote-database-name></record>
<record><rec-number>2</rec-number><titles><title>Only a title</title></titles>\
<dates><year>2001</year></dates></record></records></xml>"""
FILES = {"a.ris": RIS, "a.nbib": NBIB, "a.bib": BIB, "a.xml": XML}
FORMATS = {"ris": "ris", "nbib": "nbib", "bib": "bibtex", "xml": "endnote"}
KEYS = {
    "a.ris": ("emb-1", "Embase", "88"),
    "a.nbib": ("31000001", "PubMed", "31000002"),
    "a.bib": ("muller2019", None, "second"),
    "a.xml": ("1", "CINAHL", "2"),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_record_is_a_document(name: str, ends: str, read: Read, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name].replace("\n", ends).encode())
    documents, rejected = read(tmp_path / name)
    assert rejected == []
    first, second = documents
    key, database, other = KEYS[name]
    assert (first.key, second.key) == (key, other)
    assert str(first.body).lower() == f"{TITLE}\n\n{ABSTRACT}".lower()
    fields = dict(first.fields or {})
    assert str(fields.pop("title")).lower() == TITLE.lower()
    assert fields.pop("database", None) == database
    assert fields == {
        "authors": ["Müller, Anna", "Smith, B"], "year": 2019, "journal": "Lancet",
        "volume": "393", "issue": "4", "pages": "123-9", "doi": "10.1016/s0140-6736(19)1",
    }  # fmt: skip
    assert second.body == "Only a title"
    assert second.fields is not None and second.fields["year"] == 2001 if name != "a.xml" else True


@pytest.mark.parametrize("name", FILES)
def test_compressed_by_option_and_from_standard_input(
    name: str, read: Read, tmp_path: Path
) -> None:
    data = FILES[name].encode()
    (tmp_path / name).write_bytes(data)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    plain, _ = read(tmp_path / name)
    packed, _ = read(tmp_path / f"{name}.gz")
    piped, _ = read(["-"], input_format=FORMATS[name[2:]], stdin=io.BytesIO(data))
    for others in (packed, piped):
        assert [(one.key, one.body, one.fields) for one in others] == [
            (one.key, one.body, one.fields) for one in plain
        ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.ris", "TY  - JOUR\nTI  - A\nER  -\nTY  - JOUR\nAB  - B\nER  - \n"),
        ("x.nbib", "TI  - A\n\n\n\nAB  - B\n"),
        ("x.bib", "@misc{,title={A}}\n@misc{,abstract={B}}"),
        (
            "x.xml",
            "<xml><records><record><titles><title>A</title></titles></record>"
            "<record><abstract>B</abstract></record></records></xml>",
        ),
    ],
)
def test_a_record_without_a_key_has_its_path_and_number(
    name: str, content: str, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    documents, rejected = read(name)
    assert rejected == []
    assert [(one.key, one.body) for one in documents] == [(f"{name}:1", "A"), (f"{name}:2", "B")]


def as_told(documents: list[Document]) -> list[tuple[Any, ...]]:
    return [(one.key, one.body, one.fields) for one in documents]


@pytest.mark.parametrize("name", ["a.ris", "a.nbib", "a.bib"])
@pytest.mark.parametrize("size", [1, 2, 5, 10**6])
def test_lines_end_in_any_way(name: str, size: int, read: Read, tmp_path: Path) -> None:
    data = FILES[name].encode()
    ends = (b"\r", b"\r\n", b"\r\r\n")
    (tmp_path / name).write_bytes(data)
    expected, _ = read(tmp_path / name)
    assert len(expected) > 1
    for end in ends:
        changed = data.replace(b"\n", end)
        parts = (changed[at : at + size] for at in range(0, len(changed), size))

        class Pipe(io.RawIOBase):
            def readinto(self, buffer: Any, parts: Any = parts) -> int:
                part = next(parts, b"")
                buffer[: len(part)] = part
                return len(part)

        documents, rejected = read(["-"], stdin=Pipe(), input_format=FORMATS[name[2:]])
        assert [row[1:] for row in as_told(documents)] == [row[1:] for row in as_told(expected)]
        assert rejected == []
        (tmp_path / name).write_bytes(changed)
        assert as_told(read(tmp_path / name)[0]) == as_told(expected)


@pytest.mark.parametrize("mark", [" - ", " -", "  -", "- ", "   - ", "\t- "])
@pytest.mark.parametrize("indent", ["", "  ", "\t"])
def test_tags_of_ris_are_read_as_the_first_is_written(
    mark: str, indent: str, read: Read, tmp_path: Path
) -> None:
    strict = RIS.removeprefix("\ufeff").replace("We studied", "T1-weighted ER- we TI - studied")
    lines = strict.replace("ER  -\n", "ER  - \n").splitlines()
    path = tmp_path / "x.ris"
    path.write_text(strict)
    expected, _ = read(path)
    written = "\n".join(indent + line.replace("  - ", mark, 1) for line in lines)
    path.write_text(written + "\n" + strict)
    documents, rejected = read(path)
    assert as_told(documents) == as_told([*expected, *expected]) and rejected == []


def test_lines_of_one_value_take_linear_time() -> None:
    """Joined one by one, 40 times as many took more than 600 times as long."""
    heads = {
        "ris": (b"TY  - JOUR\nAB  - a\n", b"word word word word word\n", b"ER  - \n"),
        "nbib": (b"PMID- 1\nAB  - a\n", b"      word word word word word\n", b""),
        "bibtex": (b"@misc{a, abstract={a\n", b"word word word word word\n", b"}}\n"),
        "endnote": (
            b"<xml><records><record><abstract>a\n", b"word word word word word\n",
            b"</abstract></record></records></xml>",
        ),
    }  # fmt: skip
    for input_format, (head, line, end) in heads.items():
        times = []
        for n in (5_000, 200_000):
            begun = time.process_time()
            [one] = read_documents(
                ["-"], stdin=io.BytesIO(head + n * line + end), input_format=input_format
            )
            times.append(time.process_time() - begun)
            assert isinstance(one, Document) and one.body.count("word") == 5 * n
        assert times[1] < 200 * max(times[0], 0.005), (input_format, times)


def test_blanks_and_definitions_take_linear_time() -> None:
    blanks = b" " * 100_000
    entry = b"@misc{a, title={A}, author={A" + blanks + b"B and C}, pages={1" + blanks + b"2}}\n"
    strings = b"".join(b"@string{s%d = {word %d}}\n" % (n, n) for n in range(20_000))
    uses = b"".join(b"@misc{k%d, title = s%d}\n" % (n, n) for n in range(200))
    begun = time.process_time()
    documents = list(
        read_documents(["-"], stdin=io.BytesIO(strings + entry + uses), input_format="bibtex")
    )
    assert time.process_time() - begun < 20
    assert [one.body for one in documents[1:]] == [f"word {n}" for n in range(200)]
    assert documents[0].fields["authors"] == ["A B", "C"]


def test_options_for_fields(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.ris"
    path.write_text(RIS)
    (first, _), _ = read(path, row_keys=True, keep_fields=["doi", "abstract"])
    assert first.key == f"{path}:1"
    assert first.fields == {"doi": "10.1016/s0140-6736(19)1", "abstract": ABSTRACT}
    (first,), rejected = read(path, key_field="doi", text_field="title")
    assert (first.key, first.body) == ("10.1016/s0140-6736(19)1", TITLE)
    assert "no field 'doi'" in rejected[0].reason


GOOD = {
    "x.ris": "TY  - JOUR\nTI  - Good\nER  - \n",
    "x.nbib": "PMID- 1\nTI  - Good\n",
    "x.bib": "@misc{a, title={Good}}\n",
    "x.xml": "<record><titles><title>Good</title></titles></record>",
}
BAD = [
    ("x.ris", "TY  - JOUR\nTI  - A\n", ":4", "no line 'ER  - ' before the next one, line 6"),
    ("x.ris", "TY  - JOUR\nAU  - A\nER  - \n", ":4", "neither a title nor an abstract"),
    ("x.ris", "words\nof\n\nothers\n", ":4", "a record begins with 'TY  - '"),
    ("x.ris", "TY  - JOUR\nTI  - \\0\nER  - \n", ":4", "holds a NUL"),
    ("x.ris", "TY  - JOUR\nTI  - \\xff\nER  - \n", ":4",
     "not valid UTF-8 at byte 7 of line 2 of the record; if it is in another encoding, give --enc"),
    ("x.nbib", "\nPMID- 2\nwords\n\n", ":4", "line 2 of the record is neither 'TAG - value'"),
    ("x.nbib", "\nPMID- 2\nAU  - A\n\n", ":4", "neither a title nor an abstract"),
    ("x.bib", "@misc{b, title={Never closed\n", ":2", "cannot be read as BibTeX: Unexpectedly"),
    ("x.bib", "@misc{b, title={A} year=2000}\n", ":2", "a comma or a brace is missing"),
    ("x.bib", "@misc{b, title={A}, title={B}}\n", ":2", "Duplicate field keys on entry: 'title'."),
    ("x.bib", "@misc{b, author={A}}\n", ":2", "neither a title nor an abstract"),
    ("x.xml", "<record><titles><title>&xxe;</title></titles></record>", ": record 2",
     "not well-formed XML: undefined entity"),
    ("x.xml", "<record><titles><title>A", ": record 2", "not closed before the next one begins"),
    ("x.xml", "<record></titles></record>", ": record 2", "not well-formed XML"),
    ("x.xml", "<record><year>1</year></record>", ": record 2", "neither a title nor an abstract"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bad", "place", "reason"), BAD)
@pytest.mark.parametrize("size", [1, 7, 2**18])
def test_a_bad_record_is_one_rejection(
    name: str, bad: str, place: str, reason: str, size: int, read: Read, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Wherever the chunks are cut: the records around it are read."""
    monkeypatch.setattr("lshdb.documents.io.streams.CHUNK", size)
    data = (GOOD[name] + bad + GOOD[name]).encode()
    data = data.replace(b"\\0", b"\0").replace(b"\\xff", b"\xff")
    if name == "x.xml":
        data = b"<xml><records>" + data + b"</records></xml>"
    (tmp_path / name).write_bytes(data)
    documents, rejected = read(tmp_path / name, input_format=FORMATS[name[2:]])
    assert [one.body for one in documents] == ["Good", "Good"]
    assert len(rejected) == 1
    assert rejected[0].source == f"{tmp_path / name}{place}"
    assert reason in rejected[0].reason


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("size", [100, 2**18])
def test_a_record_over_the_limit_is_not_held(
    name: str, size: int, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.documents.io.streams.CHUNK", size)
    lines = "\n      words" * 100_000
    long = {
        "x.ris": f"TY  - JOUR\nTI  - A{lines}\nER  - \n",
        "x.nbib": f"\nPMID- 2\nTI  - A{lines}\n\n",
        "x.bib": f"@misc{{b, title={{A{lines}}}}}\n",
        "x.xml": f"<record><titles><title>A{lines}</title></titles></record>",
    }
    data = GOOD[name] + long[name] + GOOD[name]
    if name == "x.xml":
        data = f"<xml><records>{data}</records></xml>"
    (tmp_path / name).write_text(data)
    documents, rejected = read(tmp_path / name, max_document_bytes=1_000)
    assert [one.body for one in documents] == ["Good", "Good"]
    assert len(rejected) == 1 and "more than the limit of 1,000" in rejected[0].reason


HOSTILE = [
    '<?xml version="1.0"?><!DOCTYPE xml [<!ENTITY a "bbbb">]><xml><records>{}</records></xml>',
    '<?xml version="1.0"?>\n<!DOCTYPE xml SYSTEM "file:///etc/passwd"><xml><records>{}</records></xml>',
    '<!doctype xml [<!ENTITY x SYSTEM "file:///etc/passwd">]><xml><records>{}</records></xml>',
]


@pytest.mark.parametrize("content", HOSTILE)
def test_entities_are_refused(content: str, read: Read, tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(content.format("<record><titles><title>&a; &x;</title></titles></record>"))
    documents, rejected = read(path, input_format="endnote")
    assert documents == []
    assert len(rejected) == 1 and "declares a document type" in rejected[0].reason
    with pytest.raises(InputError, match="looks like an XML file"):
        read(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<rss><record/></rss>", "is not EndNote's XML"),
        ("", "is not EndNote's XML"),
        ("<a>" * 5_000, "is not EndNote's XML"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?><xml><records></records></xml>', "ISO-8859-1"),
    ],
)
def test_other_xml_is_refused(content: str, reason: str, read: Read, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(content)
    documents, rejected = read(tmp_path / "x.xml", input_format="endnote")
    assert documents == [] and len(rejected) == 1 and reason in rejected[0].reason


def test_a_library_that_is_missing(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "b.txt").write_text("a text")
    libraries = {"rispy", "bibtexparser", "defusedxml"}
    plain = builtins.__import__

    def without(name: str, *rest: Any, **others: Any) -> Any:
        if name.partition(".")[0] in libraries:
            raise ImportError(name)
        return plain(name, *rest, **others)

    import importlib

    load = importlib.import_module

    def unloaded(name: str, *rest: Any) -> Any:
        if name in libraries:
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(importlib, "import_module", unloaded)
    for name in ("a.ris", "a.bib", "a.xml"):
        with pytest.raises(InputError, match="which is not installed") as raised:
            read(tmp_path / name)
        assert raised.value.hint == install_command("bib")
    documents, rejected = read(tmp_path)
    assert [one.key for one in documents] == ["31000001", "31000002", f"{tmp_path}/b.txt"]
    assert len(rejected) == 3
    assert all(install_command("bib") in one.reason for one in rejected)


def test_a_file_without_an_entry(read: Read, tmp_path: Path) -> None:
    (tmp_path / "x.bib").write_text("[1, 2]")
    (tmp_path / "y.bib").write_text("")
    documents, rejected = read([tmp_path / "x.bib", tmp_path / "y.bib"])
    assert documents == [] and len(rejected) == 1
    assert "no entry of BibTeX" in rejected[0].reason


def test_definitions_of_bibtex_come_from_before(read: Read, tmp_path: Path) -> None:
    (tmp_path / "x.bib").write_text(
        "@misc{a, title={A}, journal=late}\n@string{Late = {Late Journal d'{\\'e}t{\\'e}}}\n"
        "@misc{b, title={B}, journal=late}\n@string{bad = {never closed}\n"
    )
    documents, rejected = read(tmp_path / "x.bib")
    assert [one.fields and one.fields.get("journal") for one in documents] == [
        "late", "Late Journal d'été",
    ]  # fmt: skip
    assert rejected == []


def test_values_put_together_in_bibtex(read: Read, tmp_path: Path) -> None:
    (tmp_path / "x.bib").write_text(
        '@string{j = "Journal of"}\n@string{onc = {Oncology}}\n'
        '@misc{a, title = {A {Nested} title}, journal = j # { } # onc #\n  " and more",'
        " month = jan # {~5}}\n"
        "@misc{b, title = {B} # { and} # { {C}}, year = 2000, month = 5 }\n"
    )
    (first, second), rejected = read(tmp_path / "x.bib")
    assert rejected == []
    assert first.fields is not None and first.fields["journal"] == "Journal of Oncology and more"
    assert (first.body, second.body) == ("A Nested title", "B and C")


def test_nothing_is_said_beside_the_rejections(
    read: Read, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    handlers = logging.getLogger().handlers[:]
    (tmp_path / "x.bib").write_text("@misc{a, title={A\n")
    logging.getLogger().handlers[:] = []
    try:
        assert len(read(tmp_path / "x.bib")[1]) == 1
    finally:
        logging.getLogger().handlers[:] = handlers
    assert capfd.readouterr() == ("", "")


PIECES = [
    b"TY  - JOUR\n", b"ER  - \n", b"TI  - a\n", b"AU  - \n", b"EP  - 9\n", b"UR  - \n", b"\n",
    b"\r",
    b"PMID- 1\n", b"      more\n", b"@misc{a,\n", b"@string{", b"title = {", b"}", b"}\n", b'"',
    b"\\'", b"$", b"<xml><records>", b"<record>", b"</record>", b"<titles><title>", b"a", b"&",
    b"</title></titles>", b"<!DOCTYPE a>", b"\0", b"\xff", b"\xed\xa0\x80", b"&#55296;", b"word ",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
    st.sampled_from(["ris", "nbib", "bibtex", "endnote"]),
    st.sampled_from([1, 30, 2**20]),
)
def test_any_bytes(data: bytes, input_format: str, limit: int) -> None:
    if input_format == "endnote":
        data = b"<xml><records>" + data
    found = read_documents(
        ["-"], input_format=input_format, stdin=io.BytesIO(data), max_document_bytes=limit
    )
    for one in found:
        if isinstance(one, Document):
            assert isinstance(one.body, str) and one.body and one.key
        else:
            assert one.reason.isprintable() and one.source.isprintable()
