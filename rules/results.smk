# Tables and figures. Tables are first made per problem, so that a change in one problem redraws nothing of another.


rule problem_cells:
    input:
        lambda w: final_files(w.problem, "errors.json"),
    output:
        "results/{preset}/tables/by_problem/{problem}.csv",
    log:
        "results/{preset}/logs/tables/{problem}.log",
    conda:
        ENVIRONMENT
    params:
        code=code_id("stcl.tables"),
    shell:
        "python -m stcl.tables cells --out {output} {input} > {log} 2>&1"


rule error_table:
    input:
        expand("results/{preset}/tables/by_problem/{problem}.csv", preset=PLAN.config.preset, problem=PROBLEMS),
    output:
        csv=report(
            "results/{preset}/tables/{quantity}.csv",
            caption="../workflow/report/error_table.rst",
            category="Tables",
            labels={"table": "{quantity}"},
        ),
        markdown="results/{preset}/tables/{quantity}.md",
        latex="results/{preset}/tables/{quantity}.tex",
    log:
        "results/{preset}/logs/tables/{quantity}.log",
    wildcard_constraints:
        quantity="field_error|jacobian_error",
    conda:
        ENVIRONMENT
    params:
        reduced="--reduced" if PLAN.config.reduced else "",
        code=code_id("stcl.tables"),
    shell:
        "python -m stcl.tables errors --quantity {wildcards.quantity} {params.reduced} --out {output.csv} {input}"
        " > {log} 2>&1"


rule convergence:
    input:
        runs=shown_files("train.json"),
        histories=shown_files("history.csv"),
    output:
        png=report(
            "results/{preset}/figures/convergence.png",
            caption="../workflow/report/convergence.rst",
            category="Figures",
            labels={"figure": "convergence"},
        ),
        pdf="results/{preset}/figures/convergence.pdf",
    log:
        "results/{preset}/logs/figures/convergence.log",
    conda:
        ENVIRONMENT
    params:
        spec=canonical({"dpi": PLAN.config.figures.dpi}),
        code=code_id("stcl.figures.convergence"),
    shell:
        "python -m stcl.figures.convergence --spec {params.spec:q} --out {output.png} {input.runs} > {log} 2>&1"


rule samples:
    input:
        runs=lambda w: shown_files("train.json", w.problem),
        weights=lambda w: shown_files("weights.pt", w.problem),
        data="results/{preset}/data/{problem}/test.json",
        bank="results/{preset}/labels/{problem}/test.json",
        stores=[ancient("results/{preset}/data/{problem}/test"), ancient("results/{preset}/labels/{problem}/test")],
    output:
        png=report(
            "results/{preset}/figures/samples/{problem}.png",
            caption="../workflow/report/samples.rst",
            category="Figures",
            labels={"figure": "samples, {problem}"},
        ),
        pdf="results/{preset}/figures/samples/{problem}.pdf",
    log:
        "results/{preset}/logs/figures/samples/{problem}.log",
    conda:
        ENVIRONMENT
    params:
        spec=canonical(PLAN.config.figures.model_dump()),
        code=lambda w: PLAN.code("figures.samples", w.problem),
    shell:
        "python -m stcl.figures.samples --spec {params.spec:q} --data {input.data} --bank {input.bank}"
        " --out {output.png} {input.runs} > {log} 2>&1"


rule tables:
    input:
        expand(
            "results/{preset}/tables/{quantity}.{kind}",
            preset=PLAN.config.preset,
            quantity=["field_error", "jacobian_error"],
            kind=["csv", "md", "tex"],
        ),


rule figures:
    input:
        f"{OUT}/figures/convergence.png",
        expand("results/{preset}/figures/samples/{problem}.png", preset=PLAN.config.preset, problem=PROBLEMS),
