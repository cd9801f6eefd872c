"""What tables read beside runs, and what they write."""

import csv
import json


def written(table, tmp_path, reduced=True):
    table.write(tmp_path / "table.csv", reduced)
    with (tmp_path / "table.csv").open() as file:
        return list(csv.DictReader(file))


def timing(path, cells):
    path.write_text(json.dumps({"cells": cells, "device": "cpu", "threads": 1}))
    return path


def bank_ledger(folder, name, seconds, problem="diffusion"):
    path = folder / f"banks/{name}/train.ledger.json"
    path.parent.mkdir(parents=True)
    spec = {"problem": problem, "samples": 16}
    path.write_text(json.dumps({"spec": spec, "seconds": seconds, "bytes": 4e9, "factorisations": 16, "solves": 1024}))
    return path
