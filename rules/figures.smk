# One rule draws all figures. What each is made from is in stcl.reporting.figures.plan.


rule figure:
    input:
        arguments=lambda w: [f"{OUT}/{file}" for file in FIGURES[w.figure].arguments],
        beside=lambda w: [f"{OUT}/{file}" for file in FIGURES[w.figure].beside],
        stores=lambda w: [ancient(f"{OUT}/{store}") for store in FIGURES[w.figure].stores],
    output:
        png=report(
            "results/{preset}/figures/{figure}.png",
            caption="../workflow/report/caption.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        pdf="results/{preset}/figures/{figure}.pdf",
    log:
        "results/{preset}/logs/figures/{figure}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        module=lambda w: FIGURES[w.figure].module,
        spec=lambda w: canonical(FIGURES[w.figure].spec),
        code=lambda w: code_id(*FIGURES[w.figure].modules),
        # Snakemake's own report shows the caption. It is a function of `output`, so that an edited caption draws no
        # figure again.
        caption=lambda w, output: captions.FIGURES[FIGURES[w.figure].module],
    shell:
        "python -m stcl.reporting.figures.{params.module} --spec {params.spec:q} --out {output.png} {input.arguments}"
        " > {log} 2>&1"


rule figures:
    input:
        [f"{OUT}/figures/{figure}.png" for figure in FIGURES],
