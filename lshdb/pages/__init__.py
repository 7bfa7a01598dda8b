"""Shared by all pages of HTML: templates that escape, one style, one script, drawings as SVG.

``environment.py`` makes the Jinja2 environment, and the style and script of a page;
``charts.py`` places numbers on a drawing; ``templates/base.html`` is the frame of every page, and
``templates/charts.html`` has macros for the drawings. Another room adds a folder of templates of
its own, which begin with ``{% extends "base.html" %}``.

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

from lshdb.pages.charts import BarChart, CurveChart, MeasuredPoint, bar_chart, s_curve_chart
from lshdb.pages.environment import (
    Assets,
    Link,
    Page,
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
    "bar_chart",
    "inline_assets",
    "make_environment",
    "read_asset",
    "s_curve_chart",
    "served_assets",
    "visible",
]
