# This rule writes the page with everything that was found, and where it comes from.


STORES = [file for target in (rules.data, rules.banks) for file in sorted(target.input, key=Path)]
STORES += [f"{OUT}/inverse/{problem}/reference.json" for problem in PLAN.inverted]


rule report:
    input:
        tables=[f"{OUT}/tables/{table}.json" for table in TABLES],
        runs=[f"{OUT}/tables/by_problem/{problem}.csv" for problem in PROBLEMS],
        figures=[f"{OUT}/figures/{figure}.png" for figure in FIGURES],
        stores=STORES,
        ledgers=[f"{manifest.removesuffix('.json')}.ledger.json" for manifest in STORES],
    output:
        f"{OUT}/report.html",
    log:
        f"{OUT}/logs/report.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        config=canonical(PLAN.config.model_dump(mode="json", by_alias=True)),
        code=code_id("stcl.reporting.report.page", *(code_of(PLAN.config.loaded(name)) for name in PROBLEMS)),
    shell:
        "python -m stcl.reporting.report.page --config {params.config:q} --out {output}"
        " --tables {input.tables} --runs {input.runs} --figures {input.figures} --stores {input.stores} > {log} 2>&1"
