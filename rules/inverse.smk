# These rules solve inverse problems: with the reference solver, whose answers are stored, and through trained cells.


rule inverse_reference:
    output:
        manifest="results/{preset}/inverse/{problem}/reference.json",
        ledger="results/{preset}/inverse/{problem}/reference.ledger.json",
        store=directory("results/{preset}/inverse/{problem}/reference"),
    log:
        "results/{preset}/logs/inverse/{problem}/reference.log",
    benchmark:
        "results/{preset}/benchmarks/inverse/{problem}/reference.tsv"
    conda:
        ENVIRONMENT
    params:
        spec=lambda w: PLAN.inverse_reference_spec(w.problem).canonical(),
        code=lambda w: code_id(*modules.of_inverse_reference(PLAN, w.problem)),
    shell:
        "python -m stcl.stages.inverse_reference --spec {params.spec:q} --code {params.code} --out {output.manifest}"
        " --workers {threads} > {log} 2>&1"


rule inverse:
    input:
        manifest="results/{preset}/inverse/{problem}/reference.json",
        ledger="results/{preset}/inverse/{problem}/reference.ledger.json",
        store=ancient("results/{preset}/inverse/{problem}/reference"),
        records=lambda w: run_files(PLAN.inverse_cells(w.problem), "train.json"),
        weights=lambda w: run_files(PLAN.inverse_cells(w.problem), "weights.pt"),
    output:
        record="results/{preset}/inverse/{problem}.json",
        arrays="results/{preset}/inverse/{problem}.npz",
    log:
        "results/{preset}/logs/inverse/{problem}.log",
    benchmark:
        "results/{preset}/benchmarks/inverse/{problem}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        gpu=1,
    params:
        spec=lambda w: PLAN.inverse_spec(w.problem).canonical(),
        code=lambda w: code_id(*modules.of_inverse(PLAN, w.problem)),
    shell:
        "python -m stcl.stages.inverse --spec {params.spec:q} --code {params.code} --reference {input.manifest}"
        " --out {output.record} --threads {threads} {input.records} > {log} 2>&1"
