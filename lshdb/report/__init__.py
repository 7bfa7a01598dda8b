"""An index -> pages of HTML for people, without a server.

``index_report.py`` asks one snapshot for everything and writes it: ``spread.py`` has pairs by their
similarity and those nearest to the threshold, ``hot_buckets.py`` the largest buckets and what fills
them, ``repeats.py`` which night repeated which, ``cluster_cards.py`` the clusters one by one, with
what ``dedup`` would decide and each member beside its nearest. ``report_files.py`` puts the file or
the folder in its place. ``pair_page.py`` is one page about two documents.

Nothing is held for longer than it takes to write it, except what is bounded by a number, 24 bytes
for each stored pair, and 40 for each signature in a cluster. Needs the extra ``lshdb[report]``.
"""

from __future__ import annotations

from lshdb.report.index_report import ReportResult, make_report
from lshdb.report.pair_page import pair_page

__all__ = ["ReportResult", "make_report", "pair_page"]
