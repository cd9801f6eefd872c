"""The page: what it says is what the files say, it needs nothing but itself, and browsers can read it."""

import base64
import csv
import json
import re
from html.parser import HTMLParser

import pytest
import yaml

from stcl.reporting import captions
from stcl.reporting.report import content, page, results
from stcl.reporting.report.parts import Grid, Text, read_grid
from stcl.reporting.tables.by_problem import COLUMNS
from stcl.reporting.tables.render import REDUCED, Table
from stcl.study.canonical import canonical
from stcl.study.config import parse

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def config():
    def problem(n, **methods):
        settings = {"options": {"n": n}, "samples": {"train": 8}, "train_sizes": [4, 8], "network": {"modes": 4}}
        return settings | {"bank": {"train": 31}, "training": {"epochs": 77}, "methods": methods}

    problems = {
        "helmholtz": problem(17, fno={}, stcl={"lambda": 1.0, "q": 3}),
        "diffusion": problem(13, fno={}, offline_di={"lambda": 0.5}),
    }
    raw = {"preset": "p", "reduced": True, "seeds": [5, 6], "problems": problems}
    return parse(raw).model_dump(mode="json", by_alias=True)


@pytest.fixture
def files(tmp_path):
    """Tables, figures, captions and stores of a study that has ended."""
    caption = "Errors < 5 % are good."
    table = Table(
        caption, [{"x": 1}], ["Problem", "N", "FNO"], [["Helmholtz", "8", "2.31 ± 0.04"], ["Diffusion", "8", "—"]]
    )
    (tmp_path / "tables/by_problem").mkdir(parents=True)
    table.write(tmp_path / "tables/field_error.csv", reduced=False)
    run = dict.fromkeys(COLUMNS, "") | {"block": "helmholtz", "n_train": 8, "method": "fno", "seed": 5}
    done = {
        "status": "done",
        "best_epoch": 70,
        "epochs": 77,
        "ended": "early",
        "field_error": 0.0231,
        "jacobian_error": 0.5,
        "seconds": 9,
    }
    done |= {"device": "cpu", "torch": "2.9", "code": "c0de", "data": "0123456789abcdef"}
    for name, rows in (("helmholtz", [run | done, run | {"seed": 6, "status": "failed"}]), ("diffusion", [])):
        with (tmp_path / f"tables/by_problem/{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    for name in ("spread", "samples/helmholtz", "samples/diffusion", "inverse/diffusion"):
        (tmp_path / f"figures/{name}.png").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"figures/{name}.png").write_bytes(PIXEL)
    (tmp_path / "data/helmholtz").mkdir(parents=True)
    spec = {"problem": "helmholtz", "split": "train", "samples": 8}
    manifest = tmp_path / "data/helmholtz/train.json"
    manifest.write_text(json.dumps({"spec": spec, "content": "fedcba9876543210", "samples": 8, "constants": []}))
    ledger = {"spec": spec, "code": "5701e", "seconds": 1.25, "bytes": 3_000_000}
    manifest.with_suffix(".ledger.json").write_text(json.dumps(ledger))
    figures = ("samples/helmholtz", "samples/diffusion", "spread", "inverse/diffusion")
    return {
        "tables": [tmp_path / "tables/field_error.json"],
        "runs": [tmp_path / f"tables/by_problem/{name}.csv" for name in ("helmholtz", "diffusion")],
        "figures": [tmp_path / f"figures/{name}.png" for name in figures],
        "stores": [manifest],
    }


@pytest.fixture
def text(config, files):
    config = json.loads(canonical(config))  # as the rule hands it over, with sorted keys
    return page.render(list(page.parts(config, **files)))


class Reader(HTMLParser):
    """Follows the tags as a browser does, and collects what they load or link to."""

    EMPTY = ("meta", "img")

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.places, self.cells = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        if tag not in self.EMPTY:
            self.open.append(tag)
        attributes = dict(attributes)
        self.loaded += [attributes[key] for key in ("src", "href") if key in attributes]
        self.places.add(attributes.get("id"))
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> does not close what is open"

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_the_page_is_whole_and_loads_nothing(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    pictures = [link for link in reader.loaded if link.startswith("data:image/png;base64,")]
    assert [base64.b64decode(link.partition(",")[2]) for link in pictures] == [PIXEL] * 4
    others = [link for link in reader.loaded if link not in pictures]
    assert {link.removeprefix("#") for link in others} <= reader.places
    assert all(link.startswith("#") for link in others)
    assert not re.search(r"<script|<link|@import|url\(|https?:", text)


def test_tables_and_captions_are_those_of_the_files(text):
    reader = Reader()
    reader.feed(text)
    start = reader.cells.index("2.31 ± 0.04") - 2
    assert reader.cells[start : start + 6] == ["Helmholtz", "8", "2.31 ± 0.04", "Diffusion", "8", "—"]
    assert "Errors &lt; 5 % are good." in text
    for name in ("spread", "samples", "inverse"):
        assert text.count(captions.FIGURES[name]) == 1


def test_settings_say_what_was_run_in_the_order_of_the_study(text, config):
    assert "these numbers" not in text.partition("<h2")[0]
    assert content.REDUCED in text.partition("<h2")[0]
    assert "Training seeds: 5, 6." in text
    equation, sizes = content.settings(config)[1:]
    assert equation.body[0][:3] == ["Helmholtz", "(−Δ − κ² e²ᵃ) u = f on (0,1)², u = 0 on the boundary.", "indefinite"]
    assert equation.body[1][3] == "13 × 13"
    by_name = {row[0]: dict(zip(sizes.header, row, strict=True)) for row in sizes.body}
    assert by_name["Helmholtz"]["q"] == "3"
    assert by_name["Helmholtz"]["Stored"] == "—"
    assert by_name["Nonlinear diffusion"]["Stored"] == "31"
    assert by_name["Nonlinear diffusion"]["N"] == "4, 8"
    assert text.index("Helmholtz</td>") < text.index("Nonlinear diffusion</td>")  # alphabetical order differs


def test_full_size_is_said_too(config, files):
    shown = page.parts(config | {"reduced": False}, **files)
    texts = [part.text for part in shown if isinstance(part, Text)]
    assert content.FULL in texts
    assert content.REDUCED not in texts


def test_the_first_words_say_where_burgers_differs_from_the_published_runs(config):
    options = {"nx": 12, "nt": 12, "solver_nx": 24, "solver_nt": 24, "probe_nt": 24}
    burgers = config["problems"]["diffusion"] | {"options": options}
    published = burgers | {"problem": "burgers", "options": options | {"scheme": "three_sweep"}}

    def study(**problems):
        return config | {"reduced": False, "problems": config["problems"] | problems}

    assert content.opening(study(burgers=burgers)) == f"{content.FULL} {content.IMPLICIT_BURGERS}"
    assert content.opening(study(burgers_published=published)) == content.FULL
    assert content.opening(study(burgers=burgers) | {"reduced": True}) == content.REDUCED
    equation, sizes = content.settings(study(burgers=burgers, burgers_published=published))[1:]
    own, variant = equation.body[-2:]
    assert (own[0], variant[0], own[1:]) == ("Burgers", "Burgers (published)", variant[1:])
    assert sizes.body[-1][0] == "Burgers (published)"
    assert equation.caption.endswith("Burgers (published) is Burgers with options.scheme = three_sweep.")


def test_every_training_and_store_is_named_with_its_hashes(config, files):
    runs = content.read_run_rows(files["runs"])
    intro, _, _, stores, _, trainings = content.provenance(config, runs, files["stores"])
    assert "2 evaluated trainings on cpu, torch 2.9" in intro.text
    assert stores.body == [["data/helmholtz/train", "`fedcba987654`", "`5701e`", "8", "—", "1.25", "3"]]
    done, failed = trainings.body
    assert done[0] == "helmholtz, N = 8, FNO, seed 5"
    assert done[2:8] == ["`c0de`", "`0123456789ab`", "—", "70 of 77, ended early", "2.31", "50.00"]
    assert failed[:3] == ["helmholtz, N = 8, FNO, seed 6", "failed", "—"]


def test_the_configuration_id_does_not_depend_on_the_order_of_keys(config):
    turned = config | {"problems": dict(reversed(config["problems"].items()))}
    assert content.configuration_id(turned) == content.configuration_id(config)
    assert content.configuration_id(config | {"seeds": [5]}) != content.configuration_id(config)


def test_columns_of_numbers_are_found():
    body = [["1", "word", "-2.5", "—", "`abc`", "3 of 5"], ["2", "7 words", "missing", "4e-05", "`1bc`", "—"]]
    assert Grid(list("abcdef"), body).numbers() == [False, True, True, True, False, True]


def test_what_a_table_shows_is_read_back(tmp_path):
    table = Table("A caption.", [{"x": 1}], ["Problem", "12², field"], [["Burgers", "1.00 [2.00 ± 0.10, ×0.50]*"]])
    table.write(tmp_path / "t.csv", reduced=False)
    assert read_grid(tmp_path / "t.json") == Grid(table.header, table.body, "A caption.")
    table.write(tmp_path / "t.csv", reduced=True)
    assert read_grid(tmp_path / "t.json").caption == f"A caption. {REDUCED}"


@pytest.fixture
def study(tmp_path, config):
    """A study on disk with two of four trainings, of which one is a record, and one table."""
    path = tmp_path / "study.yaml"
    raw = {
        "diffusion": config["problems"]["diffusion"]
        | {"train_sizes": [8], "methods": {"fno": {}, "offline_di": {"lambda": 1.0}}}
    }
    path.write_text(yaml.safe_dump({"preset": "p", "reduced": False, "seeds": [5, 6], "problems": raw}))
    for place, method, lam, seed in (("results/p/runs", "fno", 0, 5), ("records/p", "offline_di", 1, 6)):
        folder = tmp_path / f"{place}/diffusion/N8/{method}/lam{lam}/seed{seed}"
        folder.mkdir(parents=True)
        spec = {"lam": lam, "training": {"epochs": 3}}
        record = {"spec": spec, "contents": {"train": "da7a"}, "device": "cpu", "torch": "2.9", "code": "c0de"}
        record["version"] = "3"
        (folder / "train.json").write_text(json.dumps(record))
        errors = {"spec": spec, "field_error": 0.1, "jacobian_error": 0.2}
        (folder / "errors.json").write_text(json.dumps(errors))
    (tmp_path / "results/p/tables").mkdir()
    (tmp_path / "results/p/tables/field_error.md").write_text("tables field_error\n\n| a |\n|---|\n| 1 |\n")
    (tmp_path / "config").mkdir()
    numbers = {"jacobian_error": {"diffusion": {8: {"fno": [10.0, 1.0]}}}, "per_cell_settings": {}}
    (tmp_path / "config/published.yaml").write_text(yaml.safe_dump(numbers))
    return path


def test_results_say_what_was_run_and_what_is_missing(study, tmp_path):
    text = results.page([study], tmp_path)
    assert content.FULL in text
    assert "- Training seeds: 5, 6\n- Trainings: 2 evaluated, 2 missing\n" in text
    assert "- Read from: `results/p`, and 1 of them from `records/p`\n- Run on: cpu, torch 2.9\n" in text
    assert "### Field error\n\ntables field_error\n" in text
    assert "### Jacobian error\n\nPreview: cells that have not ended are named as such.\n" in text
    line = next(line for line in text.splitlines() if line.startswith("| Nonlinear diffusion | 8 | 20"))
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3:5] == ["20.00 [10.00 ± 1.00, ×2.00]* (1 missing)", "20.00 (1 missing)"]
    assert "1 of 2 trainings are read from records, made by version 3." in text
    assert "Not built: training time and cost of labels." in text


def test_results_of_nothing_are_refused(study, tmp_path):
    with pytest.raises(SystemExit, match="holds no finished training; run: snakemake --configfile"):
        results.page([study], tmp_path / "elsewhere")
