"""The stage `report` puts a study's tables and figures on one page that opens offline.

    python -m stcl.reporting.report.page --config CONFIG.json --out results/quick/report.html \
        --tables tables/….json --runs tables/by_problem/….csv --figures figures/….png \
        --stores data/….json banks/….json
"""

import argparse
import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stcl.reporting import captions
from stcl.reporting.report import content
from stcl.reporting.report.parts import Grid, Heading, Part, Picture, Text, read_grid
from stcl.study.names import problem_name


def parts(
    config: dict[str, Any],
    tables: list[Path],
    runs: list[Path],
    figures: list[Path],
    stores: list[Path],
) -> Iterator[Part]:
    """The parts of the page, with tables, problems, figures and stores in the order in which their files are given.

    `runs` are the tables by_problem, one for each problem of the study; `stores` are manifests.
    """
    order = [path.stem for path in runs]  # a canonical configuration does not keep the order of its problems
    config = config | {"problems": {name: config["problems"][name] for name in order}}
    yield Heading(1, "Sketched tangent consistency: results")
    yield Text(content.opening(config))
    yield Heading(2, "What this is")
    yield from (Text(paragraph) for paragraph in content.ABOUT)
    yield Heading(2, "Settings")
    yield from content.settings(config)
    yield Heading(2, "Tables")
    for path in tables:
        yield Heading(3, captions.title(path.stem))
        yield read_grid(path)
    yield Heading(2, "Figures")
    explained = None
    for path in figures:
        problem = path.stem if path.parent.name in captions.FIGURES else None  # such a folder has one for each problem
        name = path.parent.name if problem else path.stem
        if name != explained:  # the pictures of all problems have one caption
            explained = name
            yield Heading(3, captions.title(name))
            yield Text(captions.FIGURES[name])
        if problem:
            yield Heading(4, problem_name(problem))
        yield Picture(path, problem_name(problem) if problem else captions.title(name))
    yield Heading(2, "Provenance")
    yield from content.provenance(config, content.read_run_rows(runs), stores)


def render(parts: list[Part]) -> str:
    """The whole page as HTML. Nothing in it is loaded from anywhere."""
    places = {id(part): f"s{i}" for i, part in enumerate(parts)}
    links = [
        f'<a class="l{part.level}" href="#{places[id(part)]}">{html.escape(part.text)}</a>'
        for part in parts
        if isinstance(part, Heading) and part.level in (2, 3)
    ]
    main = "\n".join(_part(part, places[id(part)]) for part in parts)
    title = next(part.text for part in parts if isinstance(part, Heading))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html.escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<nav>{''.join(links)}</nav>\n<main>\n{main}\n</main>\n</body>\n</html>\n"
    )


def _inline(text: str) -> str:
    """The escaped text, in which code, important words, and indices as in S_θ and u_xx are marked."""
    parts = html.escape(text, quote=False).split("`")
    for i in range(0, len(parts), 2):  # the parts between are code
        parts[i] = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", parts[i])
        parts[i] = re.sub(r"\b([A-Z]{1,2}|[a-z])_(θ|t+|x+)(?!\w)", r"\1<sub>\2</sub>", parts[i])
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _part(part: Part, place: str) -> str:
    match part:
        case Heading(level, text):
            return f'<h{level} id="{place}">{_inline(text)}</h{level}>'
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Grid():
            return _grid(part)
        case Picture(png, title):
            image = base64.b64encode(png.read_bytes()).decode()
            return f'<div class="wide"><img alt="{html.escape(title)}" src="data:image/png;base64,{image}"></div>'


def _grid(grid: Grid) -> str:
    styles = [' class="n"' if number else "" for number in grid.numbers()]

    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}{s}>{_inline(c)}</{tag}>" for c, s in zip(cells, styles, strict=True)) + "</tr>"

    body, previous = [], ""
    for cells in grid.body:  # a name that repeats is shown once, with a line above each new one
        tag = line(cells, "td")
        body.append(tag if cells[0] != previous else tag.replace("<tr><td>", '<tr class="r"><td>', 1))
        previous = cells[0]
    caption = f"<p class=caption>{_inline(grid.caption)}</p>" if grid.caption else ""
    table = f"<table><thead>{line(grid.header, 'th')}</thead><tbody>{''.join(body)}</tbody></table>"
    wide = f'<div class="wide">{table}</div>'
    if grid.folded:
        return f"{caption}<details><summary>Show {len(grid.body)} rows</summary>{wide}</details>"
    return caption + wide


STYLE = """
:root { --ink: #1c2024; --soft: #5b6570; --line: #d9dde1; --accent: #b04a00; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { margin: 0; color: var(--ink); background: #fff; font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
main { padding: 1.5rem 1.25rem 5rem; max-width: 68rem; }
p { max-width: 46rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: .3rem 0 1rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .8rem; padding-top: 1rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1.08rem; margin: 2.2rem 0 .5rem; }
h4 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
h1 + p { border-left: 4px solid var(--accent); background: #fdf4ed; padding: .6rem .9rem; margin: 0 0 1rem; }
code { font: .85em ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; background: #f3f4f5;
  padding: .05em .3em; border-radius: 3px; }
nav { padding: 1rem; columns: 12rem; border-bottom: 1px solid var(--line); font-size: .87rem; line-height: 1.4; }
nav a { display: block; color: var(--soft); text-decoration: none; padding: .12rem 0; break-inside: avoid; }
nav a:hover { color: var(--accent); }
nav .l2 { color: var(--ink); font-weight: 600; margin-top: .5rem; break-after: avoid; }
nav .l3 { padding-left: .8rem; }
h3 + p, .caption { color: var(--soft); font-size: .92rem; margin: .2rem 0 .7rem; }
.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .9rem .28rem 0; text-align: left; vertical-align: top; white-space: nowrap; }
th { border-bottom: 1px solid var(--ink); font-weight: 600; }
td { border-top: 1px solid var(--line); }
tr.r td { border-top-color: transparent; }
tr.r td:first-child { color: transparent; }
.n { text-align: right; padding: .28rem .9rem .28rem .4rem; }
img { width: 100%; min-width: 36rem; max-width: 62rem; height: auto; display: block; }
sub { line-height: 0; font-size: .75em; }
summary { cursor: pointer; color: var(--accent); margin-bottom: .6rem; }
@media (max-width: 48rem) { nav .l3 { display: none; } nav { columns: 8rem; } }
@media (min-width: 78rem) {
  nav { position: fixed; top: 0; bottom: 0; width: 17rem; overflow-y: auto; columns: auto; border: 0;
    border-right: 1px solid var(--line); }
  main { margin-left: 17rem; padding: 2rem 3rem 5rem; }
}
@media print { nav { display: none; } .wide { overflow: visible; } img { break-inside: avoid; } }
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.reporting.report.page", description="Write a study's page.")
    parser.add_argument("--config", type=json.loads, required=True, help="the configuration, as JSON")
    parser.add_argument("--out", type=Path, required=True, help="page to write")
    parser.add_argument("--tables", type=Path, nargs="+", required=True, help="what the tables show, as JSON")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="the tables by_problem, as CSV")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="PNG files")
    parser.add_argument("--stores", type=Path, nargs="+", required=True, help="manifests of datasets and banks")
    given = parser.parse_args()
    page = parts(given.config, given.tables, given.runs, given.figures, given.stores)
    given.out.write_text(render(list(page)))


if __name__ == "__main__":
    main()
