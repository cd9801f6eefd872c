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
include: "rules/inverse.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/cost.smk"


# Snakemake starts at most a hundred jobs per second, a limit that never binds here. But with it, every job that ends makes
# the scheduler look at all waiting jobs once more per second until the study ends.
onstart:
    status.keep_config(config, Path(OUT))
    workflow.scheduler.job_rate_limiter = None


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
