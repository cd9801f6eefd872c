# Reference data: inputs with their responses, and banks of directions with their tangents.


rule dataset:
    output:
        manifest=OUT + "/data/{problem}/{split}.json",
        ledger=OUT + "/data/{problem}/{split}.ledger.json",
        store=directory(OUT + "/data/{problem}/{split}"),
    log:
        OUT + "/logs/data/{problem}/{split}.log",
    benchmark:
        OUT + "/benchmarks/data/{problem}/{split}.tsv"
    conda:
        ENVIRONMENT
    threads: 2
    resources:
        mem_mb=3000,
        runtime=240,
    params:
        spec=lambda w: PLAN.data_spec(w.problem, w.split),
        code=lambda w: PLAN.code("data", w.problem),
    shell:
        "python -m stcl.data --spec {params.spec:q} --code {params.code} --out {output.manifest}"
        " --workers {threads} > {log} 2>&1"


rule bank:
    input:
        manifest=OUT + "/data/{problem}/{split}.json",
        store=ancient(OUT + "/data/{problem}/{split}"),
    output:
        manifest=OUT + "/labels/{problem}/{split}.json",
        ledger=OUT + "/labels/{problem}/{split}.ledger.json",
        store=directory(OUT + "/labels/{problem}/{split}"),
    log:
        OUT + "/logs/labels/{problem}/{split}.log",
    benchmark:
        OUT + "/benchmarks/labels/{problem}/{split}.tsv"
    conda:
        ENVIRONMENT
    threads: 2
    resources:
        mem_mb=4000,
        runtime=480,
    params:
        spec=lambda w: PLAN.bank_spec(w.problem, w.split),
        code=lambda w: PLAN.code("labels", w.problem),
    shell:
        "python -m stcl.labels --spec {params.spec:q} --code {params.code} --data {input.manifest}"
        " --out {output.manifest} --workers {threads} > {log} 2>&1"


rule data:
    input:
        expand(OUT + "/data/{problem}/{split}.json", problem=PROBLEMS, split=["train", "val", "test"]),


rule labels:
    input:
        expand(OUT + "/labels/{problem}/test.json", problem=PROBLEMS),
        [
            f"{OUT}/labels/{problem}/train.json"
            for problem in PROBLEMS
            if PLAN.config.problems[problem].methods.offline_di
        ],
