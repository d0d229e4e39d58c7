"""Draws the measurements of a benchmark (the JSON that bench/harness/report.cpp writes) as a picture and as tables.

Bars are medians in GB/s: this library in colour, other contenders in grey. The dashed line is the speed of the
limit, a contender that does only the unavoidable work. Each cell has its own scale, because memory is far faster than a
disk. The tables are Markdown on standard output.
"""

import dataclasses
import json
import pathlib
import sys
import typing
from xml.sax.saxutils import escape

WIDTH, LEFT, BARS = 760, 190, 480
ROW, BAR, HEAD, GAP = 18, 12, 26, 14
# Bars are cut at this multiple of the limit, because a longer bar would make all others too short to compare.
LONGEST_BAR_IN_LIMITS = 2.5
STYLE = """
text { font: 12px sans-serif; fill: #24292f }
.title { font-weight: bold }
.ours { fill: #1a7f6b }
.other { fill: #9aa4ad }
.limit { stroke: #c2410c; stroke-width: 1.5; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .ours { fill: #3fb59b }
  .other { fill: #6e7781 }
  .limit { stroke: #fb923c }
}
"""


@dataclasses.dataclass
class Picture:
    """The parts of a picture that depend on the task."""

    label: str
    # Takes all measurements. Returns the text that states what was measured.
    describe: typing.Callable
    # Titles of cells that differ from the names of the cells.
    titles: dict = dataclasses.field(default_factory=dict)
    # Takes the cells that have a speed. Returns the cells of each table.
    tables: typing.Callable = lambda cells: [cells]
    # The order of the rows of a table. Needed if the cells of a table have different contenders, because then no cell
    # gives the order of all rows. Names without measurements get no row.
    row_order: tuple = ()


def by_cell(rows):
    cells = {}
    for row in rows:
        cells.setdefault(row["cell"], []).append(row)
    return cells


def speed(row, seconds):
    return row["bytes"] / row[seconds] / 1e9


def text(x, y, words, **attributes):
    extra = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}"{extra}>{escape(words)}</text>'


def draw_cell(title, rows, top):
    """Returns the SVG elements of one cell and the position of its end. Draws the best of several limits."""
    fastest = max(speed(row, "median_s") for row in rows)
    limit = max((speed(row, "median_s") for row in rows if row["kind"] == "limit"), default=None)
    scale = BARS / (fastest if limit is None else min(fastest, LONGEST_BAR_IN_LIMITS * limit))
    lines = [text(0, top + 14, title, **{"class": "title"})]
    y = top + HEAD
    for row in rows:
        value = speed(row, "median_s")
        length = min(value * scale, BARS)
        lines.append(text(LEFT - 8, y + 10, row["contender"], **{"text-anchor": "end"}))
        if row["kind"] != "limit":
            lines.append(f'<rect class="{row["kind"]}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}"/>')
        cut = "» " if value * scale > BARS + 0.5 else ""
        # The numbers are in one column, which the limit line does not cross.
        lines.append(text(WIDTH - 16, y + 10, f"{cut}{value:.2f}", **{"text-anchor": "end"}))
        y += ROW
    if limit is not None:
        x = f"{LEFT + limit * scale:.1f}"
        lines.append(f'<line class="limit" x1="{x}" y1="{top + HEAD - 4}" x2="{x}" y2="{y - 2}"/>')
    return lines, y + GAP


def gibibytes(count):
    return f"{count / 2**30:.2g} GiB"


def picture(measurements, parts):
    lines, top = [], 0
    for name, rows in by_cell(measurements["cells"]).items():
        if rows[0]["bytes"]:
            drawn, top = draw_cell(parts.titles.get(name, name), rows, top)
            lines += drawn
    method = f"medians over {measurements['repeats']} rounds, {parts.describe(measurements)}"
    lines.append(text(0, top + 12, f"GB/s, {method}. Dashed: the limit."))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -4 {WIDTH} {top + 28}" role="img" '
            f'aria-label="{escape(parts.label)}, GB/s">\n<style>{STYLE}</style>\n' + "\n".join(lines) + "\n</svg>\n")


def table(cells, shown, order=()):
    """A table with one row per contender and one column per cell."""
    every = sorted((row for rows in cells.values() for row in rows), key=lambda row: row["kind"] != "ours")
    names = list(dict.fromkeys(row["contender"] for row in every))
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    found = {(name, row["contender"]): row for name, rows in cells.items() for row in rows}
    lines = ["| median (best) | " + " | ".join(cells) + " |", "|---" * (len(cells) + 1) + "|"]
    for contender in names:
        row = [found.get((cell, contender)) for cell in cells]
        lines.append(f"| {contender} | " + " | ".join(shown(one) if one else "" for one in row) + " |")
    return "\n".join(lines)


def goals_table(goals):
    lines = ["| goal | median (quartiles) | |", "|---|---|---|"]
    for goal in goals:
        unit = " " + goal["unit"] if goal["unit"] else ""
        # A value without a goal has no threshold, which is "limit" in the JSON.
        threshold = "" if goal["limit"] is None else f" {'≥' if goal['at_least'] else '≤'} {goal['limit']:g}{unit}"
        reached = "not measured" if goal["value"] is None else f"{goal['value']:.3g}{unit}"
        if goal.get("lower") is not None:
            reached += f" ({goal['lower']:.3g} to {goal['upper']:.3g})"
        met = {True: "met", False: "missed", None: ""}[goal["met"]]
        lines.append(f"| {goal['text']}{threshold} | {reached} | {met} |")
    return "\n".join(lines)


def main(usage, parts):
    if len(sys.argv) != 3:
        sys.exit(usage)
    measurements = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    pathlib.Path(sys.argv[2]).write_text(picture(measurements, parts), encoding="utf-8")
    cells = by_cell(measurements["cells"])
    times_only = {name: rows for name, rows in cells.items() if not rows[0]["bytes"]}
    with_throughput = {name: rows for name, rows in cells.items() if rows[0]["bytes"]}
    if times_only:
        print("Milliseconds:\n")
        print(table(times_only, lambda row: f"{row['median_s'] * 1e3:.3g} ({row['best_s'] * 1e3:.3g})") + "\n")
    for cells_of_a_table in parts.tables(with_throughput):
        print("GB/s:\n")
        print(table(cells_of_a_table, lambda row: f"{speed(row, 'median_s'):.2f} ({speed(row, 'best_s'):.2f})",
                    parts.row_order) + "\n")
    print(goals_table(measurements["goals"]))
