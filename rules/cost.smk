# This rule prints what a study would cost. It starts nothing else and needs no data. It uses measured run times where
# there are some.


rule cost:
    log:
        f"{OUT}/logs/cost.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        config=json.dumps(PLAN.config.model_dump(mode="json", by_alias=True)),
        timings=[path for problem in PROBLEMS if Path(path := f"{OUT}/timing/{problem}.json").exists()],
    shell:
        "python -m stcl.reporting.cost --config {params.config:q} --published config/published.yaml"
        " --solvers config/solvers.yaml {params.timings} | tee {log}"
