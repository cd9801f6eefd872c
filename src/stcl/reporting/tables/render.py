"""This module writes a table as tidy CSV, and what people read of it as Markdown, LaTeX and JSON."""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

REDUCED = "Reduced sizes and budgets: these numbers are not comparable with the paper's."


@dataclass(frozen=True)
class Table:
    """A table. `rows` are tidy, one measurement a row; `header` and `body` are what people read."""

    caption: str
    rows: list[dict[str, Any]]
    header: list[str]
    body: list[list[str]]
    paragraphs: tuple[int, ...] = ()  # columns of sentences, which LaTeX has to break

    def write(self, out: Path, reduced: bool) -> None:
        """Writes the rows as CSV to `out`, and beside it what people read as Markdown, LaTeX and JSON."""
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.rows[0])
            writer.writeheader()
            writer.writerows(self.rows)
        shown = self.said_to_be_reduced() if reduced else self
        out.with_suffix(".md").write_text(shown.markdown())
        out.with_suffix(".tex").write_text(shown.latex(out.stem))
        parts = {"caption": shown.caption, "header": shown.header, "body": shown.body}
        out.with_suffix(".json").write_text(json.dumps(parts, ensure_ascii=False, indent=1) + "\n")

    def said_to_be_reduced(self) -> "Table":
        """The table of a reduced study, whose caption says so."""
        return replace(self, caption=f"{self.caption} {REDUCED}")

    def markdown(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.header, *self.body, strict=True)]

        def line(cells: list[str]) -> str:
            left = [f"{cells[0]:<{widths[0]}}"]
            return "| " + " | ".join(left + [f"{c:>{w}}" for c, w in zip(cells[1:], widths[1:], strict=True)]) + " |"

        rule = "|" + "|".join([":" + "-" * (widths[0] + 1), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
        return "\n".join([self.caption, "", line(self.header), rule, *map(line, self.body)]) + "\n"

    def latex(self, label: str) -> str:
        def symbols(text: str) -> str:
            for character, command in _LATEX.items():
                text = text.replace(character, command)
            return text

        def line(cells: list[str]) -> str:
            return " & ".join(map(symbols, cells)) + r" \\"

        columns = ["p{3cm}" if i in self.paragraphs else "r" if i else "l" for i in range(len(self.header))]
        return "\n".join(
            [
                r"\begin{table}[t]",
                r"\centering\small",
                rf"\caption{{{symbols(self.caption)}}}",
                rf"\label{{tab:{label}}}",
                rf"\begin{{tabular}}{{{''.join(columns)}}}",
                r"\toprule",
                line(self.header),
                r"\midrule",
                *map(line, self.body),
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


_LATEX = {
    "_": r"\_",
    "%": r"\%",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "λ": r"$\lambda$",
    "ᵀ": r"$^{\mathsf T}$",
    "²": r"$^2$",
    "κ": r"$\kappa$",
    "—": "--",
}
