"""Wrong versions of the measured guard: each would cost time, none a wrong sum."""

from .mutant import Mutant

GUARD = "csrc/monitor/guard.cpp"

MEASURED_GUARD = [
    Mutant(
        "trials are as many where the model is believed",
        GUARD,
        "constexpr double belief = 32, believed_share = 0.5;",
        "constexpr double belief = 1, believed_share = 0.5;",
    ),
    Mutant(
        "a promise is always believed",
        GUARD,
        "const bool credible = 2 * error_s < promised_s_;",
        "const bool credible = true;",
    ),
    Mutant(
        "what was slower is tried again as soon as what was not",
        GUARD,
        "interval_ = std::min(until_trial_ * interval_growth, most_interval);",
        "until_trial_ = interval_ = first_interval;",
    ),
    Mutant(
        "the first iteration after a change counts",
        GUARD,
        "if (last->way != last_->way) return;",
        "",
    ),
    Mutant(
        "trials with plans go on, whatever they have cost",
        GUARD,
        "constexpr double most_trials_cost = 0.01;",
        "constexpr double most_trials_cost = 1e9;",
    ),
    Mutant(
        "all regimes are one",
        GUARD,
        "return {level(late(least_lateness * scale_s)), level(late(long_lateness * scale_s)),",
        "return {0, 0,",
    ),
    Mutant(
        "how late the last rank is makes no other regime",
        GUARD,
        "static_cast<int>(last_doublings_)};",
        "0};",
    ),
    Mutant(
        "a regime changes with every doubling, however often",
        GUARD,
        "if (std::abs(doublings - last_doublings_) > 1) last",
        "last",
    ),
    Mutant(
        "what plans do to computations is not looked at",
        GUARD,
        "if (clear()) won_s = std::min(won_s, shorter_s());",
        "",
    ),
    Mutant(
        "shorter iterations count, whatever the overheads",
        GUARD,
        "std::min(won_s, shorter_s())",
        "shorter_s()",
    ),
    Mutant(
        "by chance iterations are shorter",
        GUARD,
        "std::abs(shorter_s()) > deviations * (1 + 1 / degrees) * off_s",
        "std::abs(shorter_s()) > 0 * off_s",
    ),
    Mutant(
        "a pause makes an iteration longer",
        GUARD,
        "took_s.below(2 * std::fmax(kept_took_s_.quarter(), trial_took_s_.quarter()))",
        "took_s",
    ),
    Mutant(
        "a trial that a pause cut short is judged",
        GUARD,
        "static_cast<int>(without_pauses(trial_took_s_).count())",
        "static_cast<int>(trial_took_s_.count())",
    ),
    Mutant(
        "how late the last rank is lags behind who is late",
        GUARD,
        "    for (const double rank_s : lateness_s) last_s = std::max(last_s, rank_s);\n",
        "",
    ),
    Mutant(
        "an iteration with a pause is what others are compared with",
        GUARD,
        "const double longer_s = tried_s - kept_s.mean();",
        "const double longer_s = tried_s - kept_took_s_.mean();",
    ),
    Mutant(
        "pauses in half of the iterations are usual",
        GUARD,
        "std::fmax(kept_took_s_.quarter(), trial_took_s_.quarter())",
        "std::fmax(kept_took_s_.middle(), trial_took_s_.middle())",
    ),
    Mutant(
        "what little a believed model promises is as seldom tried as much",
        GUARD,
        "until_trial_ -= credible ? 1 / rarer() : 1",
        "until_trial_ -= credible ? 1 / belief : 1",
    ),
    Mutant(
        "the guard believes that a barrier lets ranks go early",
        GUARD,
        "(barrier ? end_of(before) : ",
        "(barrier && false ? end_of(before) : ",
    ),
]
