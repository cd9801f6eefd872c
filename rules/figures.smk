# Figures.


rule convergence:
    input:
        runs=run_files(PLAN.convergence_cells(), "train.json"),
        histories=run_files(PLAN.convergence_cells(), "history.csv"),
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
        runs=lambda w: run_files(PLAN.shown_cells(w.problem), "train.json"),
        weights=lambda w: run_files(PLAN.shown_cells(w.problem), "weights.pt"),
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


rule figures:
    input:
        f"{OUT}/figures/convergence.png",
        expand("results/{preset}/figures/samples/{problem}.png", preset=PLAN.config.preset, problem=PROBLEMS),
