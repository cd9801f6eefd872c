"""This module holds the titles of tables and figures, and the captions of figures.

The report shows them, and so does the page that snakemake makes. The modules that draw the figures do not import this
one, so an edited caption draws no figure again. The captions of tables are not here: they are part of the tables and
depend on what was measured.
"""

TITLES = {
    "field_error": "Field error",
    "jacobian_error": "Jacobian error",
    "per_cell_settings": "Settings of each cell",
    "wallclock": "Training time and cost of labels",
    "minres_iterations": "Steps of the Krylov solver",
    "sketch_resolution": "Sketch count and resolution",
    "gradient_variance": "Variance of the gradient",
    "sketch_runtime": "Sketch count and run time",
    "forms": "Forms of the sTCL loss",
    "conditioning": "Conditioning of the tangent operators",
    "claims": "The paper's claims",
    "conditioning_ablation": "What the conditioning of the loss does",
    "beyond": "Beyond the labels",
    "inverse": "Inverse problems",
    "convergence": "Convergence",
    "samples": "One test sample of each problem",
    "spread": "Spread of the errors",
    "ledger": "Accuracy against cost",
    "sketch_tradeoff": "Sketch count: gain and cost",
}

FIGURES = {
    "convergence": (
        "Error of the predicted response over epochs of training, one panel per problem: dashed on the training set, "
        "solid on the validation set. A validation curve that has become flat says that the training had enough "
        "epochs; a gap between the two curves is overfitting. The training curve is the data loss that is minimised, "
        "averaged over the updates of an epoch; where some responses are not scored, as the pressure of "
        "Navier-Stokes, it counts them with their weight. Panels of relative errors show the mean relative error of "
        "the validation samples alone, because trainings record none for the training set. Where the axis of epochs "
        "names a window, curves are means over that many epochs; elsewhere every epoch is shown. Where trainings "
        "record the Jacobian error of the validation set, it is dotted and has the axis on the right. The dotted "
        "vertical line marks epoch 500 of trainings that are longer. A curve that is shorter than others belongs to a "
        "training that ended early. First training seed."
    ),
    "samples": (
        "The first test sample of a problem, which no training has seen. Top row: input, reference response, a "
        "direction in which the input is changed, and the reference tangent, which is the response's derivative along "
        "that direction. Below, one row per method: predicted response and its error, predicted tangent and its "
        "error. Predictions have the colour scale of their reference, errors of one column share a scale; the number "
        "is the relative error of this sample. Of vector fields the first component is shown. First training seed."
    ),
    "spread": (
        "How errors differ between test samples: relative error of each response (top), and of each response's "
        "derivative along each test direction (bottom), in percent on a logarithmic scale. Boxes span the quartiles "
        "with the median as a line, whiskers the 5th to the 95th percentile; the diamond is the mean, which the "
        "tables report, and the dot the worst case. All training seeds together."
    ),
    "ledger": (
        "Accuracy against everything that it cost; further down and further left is better. Colours are methods, "
        "markers are problems, grey lines join the methods of a problem. PDE solves: one for each training and "
        "validation response, and for offline DI one linearised solve for each stored tangent. Seconds: CPU seconds "
        "of these solves, plus those of the epochs that one training ran, measured alone on the training device. "
        "Stored data: training and validation pairs, and stored tangents. Costs of the N training samples are their "
        "share of the stored set. A bank of validation tangents, if there is one, is not counted. Errors are means "
        "over training seeds with their standard deviation."
    ),
    "sketch_tradeoff": (
        "What more directions per update buy and what they cost. Top: test errors against the sketch count q on "
        "several grids, mean and standard deviation over training seeds; q = 0 trains on data alone. Bottom left: the "
        "share of the gradient's variance that comes from the weighted sTCL term, which is the only part that a "
        "larger q reduces; where it is small, a larger q cannot help much. Bottom right: time of one training "
        "relative to q = 0, on linear axes."
    ),
    "beyond": (
        "Test errors against all seconds: those of the labels and of one training, measured alone. Further down and "
        "further left is better. The lines are networks that were trained on data alone (FNO) and on stored tangents "
        "(offline DI) with more and more labelled samples, whose number stands beside each point: what the same time "
        "would buy. The markers are losses of sTCL, all with the smallest of these numbers of samples. The first is "
        "that of the main tables; the others have tangents that are solved for while training, at the labelled inputs "
        "or at inputs that were never solved. A marker below both lines is a better deal than more labels. Errors are "
        "means over training seeds with their standard deviation. Top: error of the response. Bottom: error of its "
        "derivative along test directions."
    ),
    "conditioning_ablation": (
        "What the conditioning of the sTCL loss does to the test errors. Every marker is one form of the loss, with "
        "the same data, network, budget and λ: further left is better conditioned, further down is more accurate. The "
        "horizontal axis is the condition number κ of the loss as a function of the predicted tangent, which says how "
        "many times more steeply the loss rises in its steepest direction than in its flattest. κ is measured on a "
        "smaller grid, and responses that are not scored, as the pressure of Navier-Stokes, are held. A loss that "
        "compares with a solved tangent has κ = 1, whatever the error of that tangent. A form whose κ is infinite to "
        "rounding has no marker. Errors are means over training seeds with their standard deviation. Lines are "
        "networks that were trained on data alone (FNO) and on stored tangents (offline DI). Top: error of the "
        "response. Bottom: error of its derivative along test directions."
    ),
    "inverse": (
        "One inverse problem: which input lies behind noisy observations of its response at a few points? Top: the "
        "true input, which no training has seen, and the most probable input (MAP) given the observations and the "
        "prior, found with the reference solver and with each trained network in its place. The same optimiser has "
        "found all of them, and it asks for derivatives with respect to the input. The percentage is the distance "
        "from the solver's MAP. An input that depends on one variable is drawn as a curve. Bottom left: the "
        "response to the true input, with a dot at every sensor; of vector fields the first component. Bottom "
        "middle: how well the input fits the observations after each step of the optimiser, by the reference "
        "solver, whichever model made the step; a value of 1 fits them as well as the noise allows, and less uses "
        "the freedom that the prior leaves. A curve that stays high follows a network that is wrong where the "
        "optimiser leads it. Bottom right: the eigenvalues of the misfit's Hessian at the solver's MAP, each "
        "network's beside the solver's. One that is larger than 1, the dashed line, belongs to a direction about "
        "which the observations say more than the prior. First truth of the prior, first training seed."
    ),
}


def title(name: str) -> str:
    """The title of a table or figure. One without a title of its own is called by its file."""
    return TITLES.get(name, name.replace("_", " ").capitalize())
