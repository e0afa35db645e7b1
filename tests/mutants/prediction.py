"""Wrong versions of prediction: each would cost time, none a wrong sum."""

from .mutant import Mutant

PREDICTOR = "csrc/prediction/predictor.cpp"
JOB = "csrc/prediction/job.cpp"

PREDICTION = [
    Mutant(
        "arrivals are the times of the calls",
        "hooks/layers.py",
        "self._gradients.arrival_s(index, parameters, now_s)",
        "now_s",
    ),
    Mutant(
        "a start is never expected after a result",
        PREDICTOR,
        "if (!started_) result_.begin(at_s);",
        "",
    ),
    Mutant(
        "who is silent is not late",
        PREDICTOR,
        "arrival_s = std::max({arrival_s, least_s, now_s});",
        "arrival_s = std::max(arrival_s, now_s);",
    ),
    Mutant(
        "errors are as small as they were at first",
        PREDICTOR,
        "recent = recent < 0 ? square : recent + newest_square_share * (square - recent);",
        "recent = recent < 0 ? square : std::min(recent, square);",
    ),
    Mutant(
        "an error that all ranks share counts as each one's",
        JOB,
        "const double own = member.error[depth] - closed_[depth].sum / ranks;",
        "const double own = member.error[depth];",
    ),
    Mutant(
        "the best component is always the last value",
        JOB,
        "if (std::isnan(said_s.value[c]) || recent < 0 || recent >= least) continue;",
        "continue;",
    ),
    Mutant(
        "a report that seldom comes is missed",
        "csrc/prediction/edges.cpp",
        "if (learned.reported <= usual) continue;",
        "if (learned.reported <= 0) continue;",
    ),
    Mutant(
        "one hiccup begins a new phase",
        "csrc/prediction/history.cpp",
        "if (side == outside_) {",
        "if (true) {",
    ),
]
