# The page with everything that was found, and where it comes from.


STORES = sorted(rules.data.input) + sorted(rules.banks.input)


rule report:
    input:
        tables=[f"{OUT}/tables/{table}.json" for table in TABLES],
        runs=[f"{OUT}/tables/by_problem/{problem}.csv" for problem in PROBLEMS],
        figures=[f"{OUT}/figures/{figure}.png" for figure in FIGURES],
        stores=STORES,
        ledgers=[f"{manifest.removesuffix('.json')}.ledger.json" for manifest in STORES],
        captions=[f"workflow/report/{name}.rst" for name in dict.fromkeys(f.split("/")[0] for f in FIGURES)],
    output:
        f"{OUT}/report.html",
    log:
        f"{OUT}/logs/report.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        config=canonical(PLAN.config.model_dump(mode="json", by_alias=True)),
        code=code_id("stcl.reporting.report.page", *(f"stcl.problems.{problem}" for problem in PROBLEMS)),
    shell:
        "python -m stcl.reporting.report.page --config {params.config:q} --captions workflow/report --out {output}"
        " --tables {input.tables} --runs {input.runs} --figures {input.figures} --stores {input.stores} > {log} 2>&1"
