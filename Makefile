# make quick   the quick study, from nothing to report
# make test    the tests, from nothing
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRESET := quick
SNAKEFILES := Snakefile rules workflow/Snakefile
PROVENANCE := results/$(PRESET)/provenance.html

.DEFAULT_GOAL := help
.PHONY: help quick test slow slurm lint types coverage format docs site clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quick: $(VENV)/workflow.installed ## run the quick study and write its report
	$(BIN)/snakemake
	@test -z "$$(find results/$(PRESET)/report.html -newer $(PROVENANCE) 2>&1)" || $(BIN)/snakemake --report $(PROVENANCE)
	@echo
	@cat results/$(PRESET)/tables/field_error.md
	@echo
	@cat results/$(PRESET)/tables/jacobian_error.md
	@echo
	@echo "report   results/$(PRESET)/report.html (open it in a browser)"
	@echo "tables   results/$(PRESET)/tables"
	@echo "figures  results/$(PRESET)/figures"
	@echo "jobs     $(PROVENANCE) (what ran, how long, with which parameters)"

test: $(VENV)/test.installed ## run the tests
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

slow: $(VENV)/test.installed ## run the long tests
	$(BIN)/pytest -m slow

slurm: ## install Slurm for the tests that start one (Debian, as root)
	tests/slurm/install.sh

# tests/test_style.py runs these lines one by one.
lint: $(VENV)/test.installed ## check format, rules and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check $(SNAKEFILES)
	$(BIN)/snakemake --lint
	$(BIN)/codespell

types: $(VENV)/dev.installed ## check the types
	$(BIN)/mypy

coverage: $(VENV)/dev.installed ## say which lines the short tests reach; htmlcov/index.html shows them
	$(BIN)/pytest -n 2 -m "not slow and not workflow and not slurm" --cov --cov-report=term --cov-report=html

format: $(VENV)/test.installed ## format Python and Snakemake files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt $(SNAKEFILES)

docs: $(VENV)/workflow.installed ## write what is generated again: config/README.md, the schema, the graphs, the table of rooms, docs/agreement.md, docs/beyond.md
	$(BIN)/python -m stcl.reporting.docs

# A warning is an error, and every page is made anew.
site: $(VENV)/docs.installed ## build the documentation as a site that opens offline: build/site/index.html
	$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees -c docs/site . build/site
	@echo build/site/index.html

clean: ## remove results and unfinished work
	rm -rf results work

$(VENV)/%.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$*]"
	touch $@
