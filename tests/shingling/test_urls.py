"""URLs: what of them counts, where it is cut, and what makes hosts alike."""

from __future__ import annotations

import random
import time

import mmh3
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lshdb.errors import ParameterError
from lshdb.shingling import (
    DEFAULT_STOP_TOKENS,
    Shingler,
    host_shingles,
    shingle_hashes,
    split_url,
    stop_token_list,
    url_shingles,
)
from lshdb.signatures import shingle_content
from tests.chosen import choose_params
from tests.golden import plain

pytestmark = pytest.mark.fast

STOPS = frozenset(DEFAULT_STOP_TOKENS.split())
URL_CHARACTERS = "abB./:?#@%4C3A9_-0 \n\xe9\u4e2d[]"
LINES = "nfkc-casefold-lines"


def shingles(url: str, k: int = 2) -> list[str]:
    return url_shingles(url, k=k, stop_tokens=STOPS)


def test_the_example() -> None:
    path = "/cellblock16/inmates/dilbert/personal/foo.htm"
    expected = [
        "cellblock inmates 0", "inmates dilbert 1", "dilbert personal 2", "personal foo 3",
    ]  # fmt: skip
    assert shingles(path) == shingles("http://prison.example" + path) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.com", []),
        ("http://a.com/", []),
        ("http://a.com/index.html", []),
        ("http://a.com/2024/10/11", []),
        ("http://a.com/papers/index.html", ["papers 0"]),
        ("http://a.com/x/y#z", ["x y 0"]),
        ("http://a.com#x", []),
        ("http://a.com?x=y", ["x y 0"]),
        ("http://u:p@a.com:80/x/y", ["x y 0"]),
        ("a.com:8080/x/y", ["x y 0"]),
        ("localhost/x", ["localhost x 0"]),  # no dot, so no host
        ("/x/y", ["x y 0"]),
        ("HTTP://A.COM/X/Y", ["x y 0"]),
        ("http://a.com/snake_case/a-b", ["snake case 0", "case a 1", "a b 2"]),
        ("http://a.com/caf%C3%A9/%41", ["caf\xe9 a 0"]),
        ("http://a.com/%E9/x%2Fy", ["x y 0"]),
        ("http://a.com/%23x/y", ["x y 0"]),  # an escaped # is no fragment
        ("http://a.com/x\u0301\xb2", ["x\u0301 0"]),
        (
            "http://a.com/%E0%A4%95%E0%A4%BF/\u0e17\u0e35/\u0301b",
            ["\u0915\u093f \u0e17\u0e35 0", "\u0e17\u0e35 b 1"],
        ),
        ("http://a.com/?u=http://www.b.org/c/d.php", ["u b 0", "b c 1", "c d 2"]),
    ],
)
def test_what_counts(url: str, expected: list[str]) -> None:
    assert shingles(url) == expected


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://U@Ex.com:1/a?b#c", ("https", "U@Ex.com:1", "/a?b#c")),
        ("//ex.com/a", ("", "ex.com", "/a")),
        ("ex.com", ("", "ex.com", "")),
        ("ex.com?a", ("", "ex.com", "?a")),
        ("http:///a", ("http", None, "/a")),
        ("mailto:joe@ex.com", ("", None, "mailto:joe@ex.com")),
        ("some words. more", ("", None, "some words. more")),
        (".../a", ("", None, ".../a")),
        (".:80/a", ("", None, ".:80/a")),
        ("a/b.c", ("", None, "a/b.c")),
    ],
)
def test_where_a_url_is_cut(url: str, parts: tuple[str, str | None, str]) -> None:
    assert split_url(url) == parts


@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    st.text(st.sampled_from("abB./:?#@%4C3A9_-0 \n\xe9\u4e2d[]"), max_size=25), st.integers(1, 4)
)
@example("a.b//c//d", 2)
@example(".:4/a", 1)
@example("1a://b/c/d", 2)
@example("a+b://c/d", 1)
def test_any_url_is_shingled_as_in_the_plain_path(url: str, k: int) -> None:
    stops = frozenset(["a", "bb"])
    given_ = [each.encode() for each in url_shingles(url, k=k, stop_tokens=stops)]
    expected = plain.url_shingles([url], k=k, steps="nfkc-casefold-space", stop_tokens=["a", "bb"])
    assert given_ == expected


def test_dots_take_no_longer_than_other_characters() -> None:
    before = time.process_time()
    assert split_url("." * 20_000 + "@") == ("", None, "." * 20_000 + "@")
    assert time.process_time() - before < 1


@pytest.mark.parametrize("bag", [False, True])
def test_the_order_of_urls_makes_no_difference(bag: bool) -> None:
    shingler = Shingler("url", 2, bag, LINES, STOPS)
    urls = [f"http://h.com/{a}/{b}/{c}" for a in "abc" for b in "de" for c in ("f", "f.html")]
    once = shingler.canonical("\n".join(urls))
    random.Random(1).shuffle(urls)
    assert shingler.canonical(urls) == once
    lines = str(once).split("\n")
    assert lines == sorted(lines)
    assert (len(lines) > len(set(lines))) is bag


def test_the_host_makes_no_difference() -> None:
    shingler = Shingler("url", 2, False, LINES, STOPS)
    hosts = ["http://a.com", "https://www.b.org:8080", "c.net", "//d.edu"]
    assert len({shingler.canonical(f"{host}/x/y/z") for host in hosts}) == 1


def test_stop_tokens_are_recorded_as_urls_are_cut() -> None:
    assert stop_token_list(["Index.HTML", "b2b", "x"], LINES) == "b html index x"
    assert stop_token_list("z a\nz", LINES) == "a z"
    assert stop_token_list(["A"], "nfkc-lines") == "A"
    assert stop_token_list([], LINES) == ""
    recorded = choose_params(unit="url").stop_tokens
    assert recorded == " ".join(sorted(DEFAULT_STOP_TOKENS.split()))
    assert choose_params(unit="url", stop_tokens=[]).stop_tokens == ""
    assert choose_params(unit="url", stop_tokens=recorded).stop_tokens == recorded


def test_stop_tokens_are_for_urls() -> None:
    assert choose_params().stop_tokens == ""
    with pytest.raises(ParameterError, match="unit url"):
        choose_params(stop_tokens=["a"])
    with pytest.raises(ParameterError, match="unit url"):
        choose_params(unit="line", stop_tokens=[])


def test_a_scheme_is_made_of_ascii_letters() -> None:
    """Where letter case is ignored, long s is an s and the sign of kelvin a k to Python's re."""
    for letter in ("\u017f", "\u212a"):
        url = f"{letter}://h.i/path/two"
        assert split_url(url) == ("", None, url)
    assert split_url("HTTP://h.i/p") == ("http", "h.i", "/p")


@pytest.mark.parametrize(
    ("url", "tokens"),
    [
        ("http://www6.infoseek.com/", ["www", "infoseek", "com"]),
        ("http://WWW.Infoseek.com:8080/a/b", ["www", "infoseek", "com"]),
        ("ftp://user:secret@mirror-2.a.org", ["mirror", "a", "org"]),
        ("a2z.org/x", ["a", "z", "org"]),
        ("//b\xfccher.example?q", ["b\xfccher", "example"]),
        ("http://10.0.0.1/x", []),
        ("/www.infoseek.com", []),
    ],
)
def test_tokens_of_host_names(url: str, tokens: list[str]) -> None:
    """The lecture's www6.infoseek.com; digits separate, and no token of a host is a stop token."""
    assert host_shingles(url) == [f"{token} host" for token in tokens]


def test_hosts_are_in_the_content_of_their_unit_only() -> None:
    urls = "http://www6.infoseek.com/doc/help.html\nhttp://www6.infoseek.com/www/host/x\n"
    paths = ["doc help 0", "host x 0"]
    by_unit = {
        unit: Shingler.of(choose_params(unit=unit)).canonical(urls) for unit in ("url", "url-host")
    }
    assert by_unit["url"] == "\n".join(paths)
    hosts = ["com host", "infoseek host", "www host"]
    assert by_unit["url-host"] == "\n".join(sorted([*paths, *hosts]))


FROZEN = [
    5667649981329446169,
    10634122133027193416,
    14000128546025626004,
    16711390339636455810,
]


def test_the_hashes_of_hosts_are_frozen() -> None:
    """As MurmurHash3 gives them; the kernel signs the same elements."""
    content = Shingler.of(choose_params(unit="url-host")).canonical("www6.infoseek.com/doc/help")
    hashes = shingle_hashes(content, unit="url-host", k=2, bag=False)
    elements = (b"www host", b"infoseek host", b"com host", b"doc help 0")
    assert hashes.tolist() == sorted(mmh3.hash64(each, signed=False)[0] for each in elements)
    assert hashes.tolist() == FROZEN
    assert shingle_content(content, unit="url-host", k=2, bag=False).tolist() == FROZEN
