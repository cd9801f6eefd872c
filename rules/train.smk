# One job per cell, its errors on the test split, and the choice of λ by validation.


rule train:
    input:
        unpack(cell_inputs),
    output:
        record="results/{preset}/runs/{cell}/train.json",
        weights="results/{preset}/runs/{cell}/weights.pt",
        history="results/{preset}/runs/{cell}/history.csv",
    log:
        "results/{preset}/logs/train/{cell}.log",
    benchmark:
        "results/{preset}/benchmarks/train/{cell}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        gpu=1,
        mem_mb=6000,
        runtime=720,
    params:
        spec=lambda w: PLAN.train_spec(PLAN.cells[w.cell]),
        code=lambda w: PLAN.train_code(PLAN.cells[w.cell]),
        options=cell_options,
    shell:
        "python -m stcl.train --spec {params.spec:q} --code {params.code} --train {input.train} --val {input.val}"
        " {params.options} --out {output.record} --threads {threads} > {log} 2>&1"


rule evaluate:
    input:
        unpack(test_inputs),
        record="results/{preset}/runs/{cell}/train.json",
        weights="results/{preset}/runs/{cell}/weights.pt",
    output:
        means="results/{preset}/runs/{cell}/errors.json",
        errors="results/{preset}/runs/{cell}/errors.npz",
    log:
        "results/{preset}/logs/evaluate/{cell}.log",
    benchmark:
        "results/{preset}/benchmarks/evaluate/{cell}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        gpu=1,
        mem_mb=6000,
        runtime=60,
    params:
        code=lambda w: PLAN.code("evaluate", PLAN.cells[w.cell].problem),
    shell:
        "python -m stcl.evaluate --run {input.record} --data {input.data} --bank {input.bank} --out {output.means}"
        " --threads {threads} > {log} 2>&1"


rule select:
    input:
        tuning_runs,
    output:
        "results/{preset}/select/{problem}/N{n}/{method}.json",
    log:
        "results/{preset}/logs/select/{problem}/N{n}/{method}.log",
    conda:
        ENVIRONMENT
    params:
        code=code_id("stcl.select"),
    shell:
        "python -m stcl.select --out {output} {input} > {log} 2>&1"
