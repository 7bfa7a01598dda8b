"""Shared by all pages of HTML: templates that escape, one style, one script, drawings as SVG.

``environment.py`` makes the Jinja2 environment, and the style and script of a page;
``charts.py`` places numbers on a drawing; ``text_markup.py`` lays two texts beside each other, and
``cards.py`` says what a cluster and its members show. ``templates/base.html`` is the frame of every
page; ``charts.html`` has macros for drawings, ``texts.html`` for keys, texts and differences,
``cards.html`` for clusters. ``assets/style.css`` begins with the tokens. Another
room adds a folder of templates of its own, which begin with ``{% extends "base.html" %}``.

A page that is one file::

    environment = make_environment(Path(__file__).parent / "templates")
    page = Page(title="Report of news.lshdb", assets=inline_assets())
    for part in environment.get_template("report.html").generate(page=page, ...):
        file.write(part)

has its style and script inside, with their hashes in its Content-Security-Policy. A page that a
server sends is the same with ``assets=served_assets("/assets/")``: it links to files that
:func:`read_asset` gives, and the server's own header is the policy.

Nothing here reads an index. Needs the extra ``lshdb[report]``.
"""

from __future__ import annotations

from lshdb.pages.charts import (
    BarChart,
    CurveChart,
    MeasuredPoint,
    RangeBar,
    heats,
    histogram,
    range_bar,
    s_curve_chart,
)
from lshdb.pages.environment import (
    Assets,
    Link,
    Page,
    asset_version,
    inline_assets,
    make_environment,
    read_asset,
    served_assets,
    visible,
)

__all__ = [
    "Assets",
    "BarChart",
    "CurveChart",
    "Link",
    "MeasuredPoint",
    "Page",
    "RangeBar",
    "asset_version",
    "heats",
    "histogram",
    "inline_assets",
    "make_environment",
    "range_bar",
    "read_asset",
    "s_curve_chart",
    "served_assets",
    "visible",
]
