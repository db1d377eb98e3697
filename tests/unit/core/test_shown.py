"""What a notebook shows: numbers to the right, sizes as sizes, nothing where there is nothing, and no markup but ours."""

from __future__ import annotations

import datetime as dt
import re

from omnigraph.core.shown import html_table


def cells(html: str) -> list[str]:
    return re.findall(r"<td[^>]*>([^<]*)</td>", html)


def test_a_column_of_numbers_stands_to_the_right_and_one_of_texts_to_the_left() -> None:
    html = html_table(("name", "rows"), [("a", 1), ("b", None)])
    assert re.findall(r"<th style=\"[^\"]*text-align:(\w+)", html) == ["left", "right"]
    assert cells(html) == ["a", "1", "b", ""]


def test_sizes_and_times_are_shown_as_people_read_them() -> None:
    when = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.timezone(dt.timedelta(hours=2)))
    assert cells(html_table(("bytes", "at"), [(2048, when)])) == ["2.0 KiB", "2026-01-02 01:04:05Z"]


def test_a_table_without_rows_says_so_in_place_of_headings() -> None:
    html = html_table(("name",), [], "pending writes", empty="nothing is pending")
    assert cells(html) == ["nothing is pending"] and "<th" not in html and "pending writes" in html


def test_no_text_is_markup_and_none_is_endless() -> None:
    evil = "<b>&\"'" + "x" * 500
    html = html_table((evil[:9],), [(evil,)], evil[:9], notes=[evil[:9]], empty=evil)
    assert "<b>" not in html and len(html) < 1000
    assert "<b>" not in html_table((), [], empty="<b>")
