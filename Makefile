# make quick   the quick study, from nothing to report
# make test    the tests, from nothing
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRESET := quick
REPORT := results/$(PRESET)/report.html

.DEFAULT_GOAL := help
.PHONY: help quick test slow format docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quick: $(VENV)/workflow.installed ## run the quick study and write its report
	$(BIN)/snakemake
	@test -n "$$(find results/$(PRESET)/tables results/$(PRESET)/figures -newer $(REPORT) 2>&1)" || exit 0; \
	$(BIN)/snakemake --report $(REPORT)
	@echo
	@cat results/$(PRESET)/tables/field_error.md
	@echo
	@cat results/$(PRESET)/tables/jacobian_error.md
	@echo
	@echo "tables   results/$(PRESET)/tables"
	@echo "figures  results/$(PRESET)/figures"
	@echo "report   $(REPORT)"

test: $(VENV)/test.installed ## run the tests
	$(BIN)/pytest -n 2 --dist loadfile

slow: $(VENV)/test.installed ## run the long tests
	$(BIN)/pytest -m slow

format: $(VENV)/test.installed ## format Python and Snakemake files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

docs: $(VENV)/workflow.installed ## write the generated pages again: config/README.md, the schema, the rule graph
	$(BIN)/python -m stcl.docs

clean: ## remove results and unfinished work
	rm -rf results work

$(VENV)/%.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$*]"
	touch $@
