# Figures.


rule convergence:
    input:
        run_files(PLAN.convergence_cells(), "history.csv"),
        runs=run_files(PLAN.convergence_cells(), "train.json"),
        data=data_files(RELATIVE, ["train", "val"], "json"),
        stores=[ancient(store) for store in data_files(RELATIVE, ["train", "val"])],
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
    localrule: True
    conda:
        ENVIRONMENT
    params:
        spec=canonical({"dpi": PLAN.config.figures.dpi, "relative": RELATIVE}),
        code=code_id("stcl.reporting.figures.convergence", *(f"stcl.problems.{problem}" for problem in RELATIVE)),
    shell:
        "python -m stcl.reporting.figures.convergence --spec {params.spec:q} --out {output.png} {input.runs} {input.data}"
        " > {log} 2>&1"


rule samples:
    input:
        runs=lambda w: run_files(PLAN.shown_cells(w.problem), "train.json"),
        weights=lambda w: run_files(PLAN.shown_cells(w.problem), "weights.pt"),
        data="results/{preset}/data/{problem}/test.json",
        bank="results/{preset}/banks/{problem}/test.json",
        stores=[ancient("results/{preset}/data/{problem}/test"), ancient("results/{preset}/banks/{problem}/test")],
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
    localrule: True
    conda:
        ENVIRONMENT
    params:
        spec=canonical({"dpi": PLAN.config.figures.dpi, "colormap": PLAN.config.figures.colormap}),
        code=lambda w: code_id("stcl.reporting.figures.samples", f"stcl.problems.{w.problem}"),
    shell:
        "python -m stcl.reporting.figures.samples --spec {params.spec:q} --data {input.data} --bank {input.bank}"
        " --out {output.png} {input.runs} > {log} 2>&1"


rule spread:
    input:
        run_files(SHOWN_CELLS, "train.json", "errors.json"),
        errors=run_files(SHOWN_CELLS, "errors.npz"),
    output:
        png=report(
            "results/{preset}/figures/spread.png",
            caption="../workflow/report/spread.rst",
            category="Figures",
            labels={"figure": "spread"},
        ),
        pdf="results/{preset}/figures/spread.pdf",
    log:
        "results/{preset}/logs/figures/spread.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        spec=canonical({"dpi": PLAN.config.figures.dpi}),
        code=code_id("stcl.reporting.figures.spread"),
    shell:
        "python -m stcl.reporting.figures.spread --spec {params.spec:q} --out {output.png} {input.errors} > {log} 2>&1"


rule ledger:
    input:
        tables=expand("results/{{preset}}/tables/{table}.csv", table=["field_error", "jacobian_error", "wallclock"]),
        data=data_files(PROBLEMS, ["train", "val"], "ledger.json"),
        banks=[f"{OUT}/banks/{p}/train.ledger.json" for p in PROBLEMS if PLAN.config.problems[p].methods.offline_di],
    output:
        png=report(
            "results/{preset}/figures/ledger.png",
            caption="../workflow/report/ledger.rst",
            category="Figures",
            labels={"figure": "ledger"},
        ),
        pdf="results/{preset}/figures/ledger.pdf",
    log:
        "results/{preset}/logs/figures/ledger.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        spec=canonical({"dpi": PLAN.config.figures.dpi}),
        code=code_id("stcl.reporting.figures.ledger"),
    shell:
        "python -m stcl.reporting.figures.ledger --spec {params.spec:q} --out {output.png} {input} > {log} 2>&1"


if PLAN.config.studies.sketch_count:

    rule sketch_tradeoff:
        input:
            expand(
                "results/{{preset}}/tables/{table}.csv",
                table=["sketch_resolution", "gradient_variance", "sketch_runtime"],
            ),
        output:
            png=report(
                "results/{preset}/figures/sketch_tradeoff.png",
                caption="../workflow/report/sketch_tradeoff.rst",
                category="Figures",
                labels={"figure": "sketch_tradeoff"},
            ),
            pdf="results/{preset}/figures/sketch_tradeoff.pdf",
        log:
            "results/{preset}/logs/figures/sketch_tradeoff.log",
        localrule: True
        conda:
            ENVIRONMENT
        params:
            spec=canonical({"dpi": PLAN.config.figures.dpi, "grid": PLAN.config.studies.sketch_count.runtime_grid}),
            code=code_id("stcl.reporting.figures.sketch_tradeoff"),
        shell:
            "python -m stcl.reporting.figures.sketch_tradeoff --spec {params.spec:q} --out {output.png} {input} > {log} 2>&1"


rule figures:
    input:
        [f"{OUT}/figures/{figure}.png" for figure in FIGURES],
