# This rule prints what a study would cost. It starts nothing else and needs no data. It uses measured run times where
# there are some.


rule cost:
    log:
        f"{OUT}/logs/cost.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        # As it was given. In the validated one, a method that is left out looks like one with its defaults.
        config=json.dumps(plain(config)),
        timings=[path for problem in PROBLEMS if Path(path := f"{OUT}/timing/{problem}.json").exists()],
    shell:
        "python -m stcl.reporting.cost --config {params.config:q} --published config/published.yaml"
        " --solvers config/solvers.yaml {params.timings} | tee {log}"
