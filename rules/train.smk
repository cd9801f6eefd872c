# These rules train each cell in a job of its own, measure its errors on the test split, and choose λ by validation.
# They also measure run times and the conditioning of the tangent operators.


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
    params:
        spec=lambda w: PLAN.train_spec(PLAN.cells[w.cell]).canonical(),
        code=lambda w: code_id(*modules.of_train(PLAN, PLAN.cells[w.cell])),
        options=training_options,
        stored=stored_tangents,
        tuning=tuning_option,
        left=left_by_tuning,
    # `exec` leaves no shell in between. A scheduler's warning goes to all processes, and the shell would end before the
    # training has saved its state.
    shell:
        "exec python -m stcl.stages.train --spec {params.spec:q} --code {params.code} --train {input.train} --val {input.val}"
        " {params.options} {params.stored} {params.tuning} --out {output.record} --threads {threads} > {log} 2>&1"


rule evaluate:
    input:
        unpack(lambda w: test_inputs(PLAN.cells[w.cell].block)),
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
    params:
        code=lambda w: code_id(*modules.of_evaluate(PLAN, PLAN.cells[w.cell].block)),
    shell:
        "python -m stcl.stages.evaluate --data {input.data} --bank {input.bank} {input.record}"
        " --threads {threads} > {log} 2>&1"


# With `evaluation: {jobs: block}`, these rules take the place of the one above. Snakemake prefers them because they have
# no wildcards.
for block_name, block_cells in TOGETHER.items():

    rule:
        name:
            f"evaluate_{block_name}"
        input:
            **test_inputs(block_name),
            records=run_files(block_cells, "train.json"),
            weights=run_files(block_cells, "weights.pt"),
        output:
            means=run_files(block_cells, "errors.json"),
            errors=run_files(block_cells, "errors.npz"),
        log:
            f"{OUT}/logs/evaluate/{block_name}.log",
        benchmark:
            f"{OUT}/benchmarks/evaluate/{block_name}.tsv"
        localrule: True
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            gpu=1,
        params:
            code=code_id(*modules.of_evaluate(PLAN, block_name)),
        shell:
            "python -m stcl.stages.evaluate --data {input.data} --bank {input.bank} {input.records}"
            " --threads {threads} > {log} 2>&1"


rule select:
    input:
        lambda w: run_files(PLAN.tuning_cells(w.decision), "train.json"),
    output:
        "results/{preset}/select/{decision}.json",
    log:
        "results/{preset}/logs/select/{decision}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        code=code_id("stcl.stages.select"),
    shell:
        "python -m stcl.stages.select --out {output} {input} > {log} 2>&1"


rule timing:
    input:
        unpack(timing_inputs),
    output:
        "results/{preset}/timing/{group}.json",
    log:
        "results/{preset}/logs/timing/{group}.log",
    conda:
        ENVIRONMENT
    threads: whole_machine()  # nothing else runs beside a measurement
    resources:
        gpu=1,
    params:
        spec=lambda w: PLAN.timing_spec(w.group).canonical(),
        code=lambda w: code_id(*modules.of_timing(PLAN, w.group)),
        options=training_options,
    shell:
        "python -m stcl.stages.timing --spec {params.spec:q} --train {input.train} --val {input.val}"
        " {params.options} --out {output} > {log} 2>&1"


rule conditioning:
    output:
        "results/{preset}/conditioning/{block}.json",
    log:
        "results/{preset}/logs/conditioning/{block}.log",
    conda:
        ENVIRONMENT
    params:
        spec=lambda w: PLAN.conditioning_spec(w.block).canonical(),
        code=lambda w: code_id(*modules.of_conditioning(PLAN, w.block)),
    shell:
        "python -m stcl.stages.conditioning --spec {params.spec:q} --code {params.code} --out {output} > {log} 2>&1"
