# Reference data: inputs with their responses, and banks of directions with their tangents.


rule dataset:
    output:
        manifest="results/{preset}/data/{problem}/{split}.json",
        ledger="results/{preset}/data/{problem}/{split}.ledger.json",
        store=directory("results/{preset}/data/{problem}/{split}"),
    log:
        "results/{preset}/logs/data/{problem}/{split}.log",
    benchmark:
        "results/{preset}/benchmarks/data/{problem}/{split}.tsv"
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
        manifest="results/{preset}/data/{problem}/{split}.json",
        store=ancient("results/{preset}/data/{problem}/{split}"),
    output:
        manifest="results/{preset}/labels/{problem}/{split}.json",
        ledger="results/{preset}/labels/{problem}/{split}.ledger.json",
        store=directory("results/{preset}/labels/{problem}/{split}"),
    log:
        "results/{preset}/logs/labels/{problem}/{split}.log",
    benchmark:
        "results/{preset}/benchmarks/labels/{problem}/{split}.tsv"
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
        expand(
            "results/{preset}/data/{problem}/{split}.json",
            preset=PLAN.config.preset,
            problem=PROBLEMS,
            split=["train", "val", "test"],
        ),


rule labels:
    input:
        expand("results/{preset}/labels/{problem}/test.json", preset=PLAN.config.preset, problem=PROBLEMS),
        [
            f"{OUT}/labels/{problem}/train.json"
            for problem in PROBLEMS
            if PLAN.config.problems[problem].methods.offline_di
        ],
