# These rules make reference data: inputs with their responses, and banks of directions with their tangents.


rule dataset:
    output:
        manifest="results/{preset}/data/{dataset}/{split}.json",
        ledger="results/{preset}/data/{dataset}/{split}.ledger.json",
        store=directory("results/{preset}/data/{dataset}/{split}"),
    log:
        "results/{preset}/logs/data/{dataset}/{split}.log",
    benchmark:
        "results/{preset}/benchmarks/data/{dataset}/{split}.tsv"
    conda:
        ENVIRONMENT
    threads: lambda w: workers(PLAN.datasets[w.dataset].settings.samples, w.split)
    params:
        spec=lambda w: PLAN.data_spec(w.dataset, w.split).canonical(),
        code=lambda w: code_id(*modules.of_data(PLAN, w.dataset)),
    shell:
        "python -m stcl.stages.data --spec {params.spec:q} --code {params.code} --out {output.manifest}"
        " --workers {threads} > {log} 2>&1"


rule bank:
    input:
        manifest="results/{preset}/data/{dataset}/{split}.json",
        store=ancient("results/{preset}/data/{dataset}/{split}"),
    output:
        manifest="results/{preset}/banks/{dataset}/{split}.json",
        ledger="results/{preset}/banks/{dataset}/{split}.ledger.json",
        store=directory("results/{preset}/banks/{dataset}/{split}"),
    log:
        "results/{preset}/logs/banks/{dataset}/{split}.log",
    benchmark:
        "results/{preset}/benchmarks/banks/{dataset}/{split}.tsv"
    conda:
        ENVIRONMENT
    threads: lambda w: workers(PLAN.datasets[w.dataset].settings.samples, w.split)
    params:
        spec=lambda w: PLAN.bank_spec(w.dataset, w.split).canonical(),
        code=lambda w: code_id(*modules.of_bank(PLAN, w.dataset)),
    shell:
        "python -m stcl.stages.bank --spec {params.spec:q} --code {params.code} --data {input.manifest}"
        " --out {output.manifest} --workers {threads} > {log} 2>&1"


rule data:
    input:
        expand(
            "results/{preset}/data/{dataset}/{split}.json",
            preset=PLAN.config.preset,
            dataset=PLAN.datasets,
            split=["train", "val", "test"],
        ),


rule banks:
    input:
        [f"{OUT}/banks/{dataset}/{split}.json" for dataset, split in PLAN.banks],
