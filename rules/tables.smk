# These rules make the tables, and a preview of them from the runs that are there.


rule by_problem:
    input:
        lambda w: run_files(PLAN.problem_cells(w.problem), "train.json", "errors.json"),
    output:
        "results/{preset}/tables/by_problem/{problem}.csv",
    log:
        "results/{preset}/logs/tables/by_problem/{problem}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        runs=lambda w: run_files(PLAN.problem_cells(w.problem), ""),
        code=code_id("stcl.reporting.tables.by_problem"),
    shell:
        "python -m stcl.reporting.tables.by_problem --out {output} {params.runs} > {log} 2>&1"


rule table:
    input:
        lambda w: [f"{OUT}/{file}" for file in TABLES[w.table].files],
        lambda w: published_numbers(w.table),
    output:
        csv=report(
            "results/{preset}/tables/{table}.csv",
            caption="../workflow/report/caption.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        markdown="results/{preset}/tables/{table}.md",
        latex="results/{preset}/tables/{table}.tex",
        shown="results/{preset}/tables/{table}.json",
    log:
        "results/{preset}/logs/tables/{table}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        # Snakemake compares the spec to see a change. It does not compare a function of `output`, so the order of a
        # study's problems, which the command follows, is no change.
        spec=lambda w: canonical(TABLES[w.table].spec),
        command=lambda w, output: table_command(w.table, Path(output.csv).parent),
        code=lambda w: code_id(f"stcl.reporting.tables.{TABLES[w.table].module}"),
        caption=lambda w, output: table_caption(output.shown),
    shell:
        "{params.command} > {log} 2>&1"


rule tables:
    input:
        expand(
            "results/{preset}/tables/{table}.{kind}",
            preset=PLAN.config.preset,
            table=TABLES,
            kind=["csv", "md", "tex", "json"],
        ),
        expand("results/{preset}/tables/by_problem/{problem}.csv", preset=PLAN.config.preset, problem=PROBLEMS),


# Each problem is a target of its own, with its cells, those of its ablations, and its figure.
for problem_name in PROBLEMS:

    rule:
        name:
            problem_name
        input:
            f"{OUT}/tables/by_problem/{problem_name}.csv",
            f"{OUT}/figures/samples/{problem_name}.png",
        localrule: True


# This rule starts nothing else. Cells that have not finished are taken from the records, or else appear as missing or failed.
rule preview:
    log:
        f"{OUT}/logs/tables/preview.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=f"{OUT}/preview",
        commands=" && ".join(
            [
                table_command(name, f"{OUT}/preview", [RECORDS])
                for name, table in TABLES.items()
                if table.cells or table.partial
            ]
            + figure_preview("convergence", f"{OUT}/preview", [RECORDS])
        ),
    shell:
        "mkdir -p {params.folder} && {params.commands} && cat {params.folder}/*.md | tee {log}"
