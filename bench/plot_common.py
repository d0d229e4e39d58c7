"""What pictures and tables of benchmarks have in common: figures as bench/load/report.cpp writes them.

Bars are medians in GB/s, this library's in colour and others' in grey; the line is what nothing can beat.
Each cell has a scale of its own, as memory is far faster than a disk. The tables, in Markdown, go to
standard output.
"""

import dataclasses
import json
import pathlib
import sys
import typing
from xml.sax.saxutils import escape

WIDTH, LEFT, BARS = 760, 190, 480
ROW, BAR, HEAD, GAP = 18, 12, 26, 14
# A bar this many times as long as the limit would make all others too short to compare.
MAX_LIMITS = 2.5
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
    """What is a task's own in its picture."""

    label: str
    titles: dict
    # From all figures: what they were measured with.
    measured: typing.Callable
    # From the cells that have a speed: those of each table.
    tables: typing.Callable = lambda cells: [cells]
    # Contenders in the order of a table's rows, for cells that lack some. Absent contenders have no row.
    contenders: tuple = ()


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
    """The lines of one cell and where it ends. Of several limits, the better one is drawn."""
    fastest = max(speed(row, "median_s") for row in rows)
    limit = max((speed(row, "median_s") for row in rows if row["kind"] == "limit"), default=None)
    scale = BARS / (fastest if limit is None else min(fastest, MAX_LIMITS * limit))
    lines = [text(0, top + 14, title, **{"class": "title"})]
    y = top + HEAD
    for row in rows:
        value = speed(row, "median_s")
        length = min(value * scale, BARS)
        lines.append(text(LEFT - 8, y + 10, row["contender"], **{"text-anchor": "end"}))
        if row["kind"] != "limit":
            lines.append(f'<rect class="{row["kind"]}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}"/>')
        cut = "» " if value * scale > BARS + 0.5 else ""
        # All in one column, where no line crosses them.
        lines.append(text(WIDTH - 16, y + 10, f"{cut}{value:.2f}", **{"text-anchor": "end"}))
        y += ROW
    if limit is not None:
        x = f"{LEFT + limit * scale:.1f}"
        lines.append(f'<line class="limit" x1="{x}" y1="{top + HEAD - 4}" x2="{x}" y2="{y - 2}"/>')
    return lines, y + GAP


def gibibytes(count):
    return f"{count / 2**30:.2g} GiB"


def picture(figures, own):
    lines, top = [], 0
    for name, rows in by_cell(figures["cells"]).items():
        if rows[0]["bytes"]:
            drawn, top = draw_cell(own.titles.get(name, name), rows, top)
            lines += drawn
    lines.append(text(0, top + 12, f"GB/s, medians of {figures['repeats']}, {own.measured(figures)}. "
                                   "Dashed: the limit."))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -4 {WIDTH} {top + 28}" role="img" '
            f'aria-label="{escape(own.label)}, GB/s">\n<style>{STYLE}</style>\n' + "\n".join(lines) + "\n</svg>\n")


def table(cells, shown, order=()):
    """Contenders down, cells across."""
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
        kind, unit = ("≥" if goal["at_least"] else "≤"), (" " + goal["unit"] if goal["unit"] else "")
        reached = "not measured" if goal["value"] is None else f"{goal['value']:.3g}{unit}"
        if goal.get("lower") is not None:
            reached += f" ({goal['lower']:.3g} to {goal['upper']:.3g})"
        met = {True: "met", False: "missed", None: ""}[goal["met"]]
        lines.append(f"| {goal['text']} {kind} {goal['limit']:g}{unit} | {reached} | {met} |")
    return "\n".join(lines)


def main(usage, own):
    if len(sys.argv) != 3:
        sys.exit(usage)
    figures = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    pathlib.Path(sys.argv[2]).write_text(picture(figures, own), encoding="utf-8")
    cells = by_cell(figures["cells"])
    quick = {name: rows for name, rows in cells.items() if not rows[0]["bytes"]}
    long = {name: rows for name, rows in cells.items() if rows[0]["bytes"]}
    if quick:
        print("Milliseconds:\n")
        print(table(quick, lambda row: f"{row['median_s'] * 1e3:.3g} ({row['best_s'] * 1e3:.3g})") + "\n")
    for cells_of_a_table in own.tables(long):
        print("GB/s:\n")
        print(table(cells_of_a_table, lambda row: f"{speed(row, 'median_s'):.2f} ({speed(row, 'best_s'):.2f})",
                    own.contenders) + "\n")
    print(goals_table(figures["goals"]))
