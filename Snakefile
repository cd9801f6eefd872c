# Sketched tangent consistency. This workflow makes every table and figure of a study, from prior to report.
#
#   snakemake                                             the quick study (config/config.yaml)
#   snakemake --configfile config/paper.yaml              the paper
#   snakemake results/quick/tables/field_error.md         one table
#   snakemake burgers                                     one problem
from snakemake.utils import min_version

min_version("9.3")

# A configuration that is given on the command line replaces the default one. Merging the two would mix two studies.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/train.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/cost.smk"


onstart:
    status.keep_config(config, Path(OUT))


localrules:
    all,
    data,
    banks,
    tables,
    figures,


rule all:
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,
        f"{OUT}/report.html",
