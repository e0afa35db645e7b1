"""Wrong versions of plans and prices: each would cost time, none a wrong sum."""

from .mutant import Mutant

DIRECT_EXCHANGE = "csrc/algorithms/all_reduce/direct_exchange.cpp"
ROLLOUT = "csrc/selection/rollout.cpp"
PLANNER = "csrc/selection/planner.cpp"
SEARCH = "csrc/selection/search.cpp"
SELECTOR = "csrc/selection/selector.cpp"

LOWER_BOUND = "csrc/pricing/lower_bound.cpp"
PORTS = "csrc/pricing/ports.h"
REGRESSION = "patallreduce/decisions/regression.py"

SELECTION = [
    Mutant(
        "a rank that has much to do keeps processors that others could use",
        PORTS,
        "return a_s <= begin_s && b_s <= begin_s ? a_s > b_s : a_s < b_s;",
        "return a_s < b_s;",
    ),
    Mutant(
        "a direct exchange has ports where there are none",
        "csrc/selection/schedules.h",
        "return algorithm.pricing.flow && link.processors == 0;",
        "return algorithm.pricing.flow;",
    ),
    Mutant(
        "a direct exchange changes partners for nothing",
        DIRECT_EXCHANGE,
        "(link.port_share * link.latency_s + change_s)",
        "link.port_share * link.latency_s",
    ),
    Mutant(
        "what a call costs is a part of the latency",
        "patallreduce/pricing/link.py",
        "latency_s = min(latency_s, _least_s(hop_s, _MORE_REPEATS))",
        "pass",
    ),
    Mutant(
        "of many ranks all have a closed form",
        "csrc/selection/rollout.h",
        "return ranks_ > most_simulated_ranks && algorithm.pricing.estimate;",
        "return ranks_ > most_simulated_ranks;",
    ),
    Mutant(
        "plans take ports for rested",
        SEARCH,
        "  link.burst_bytes = 0;",
        "",
    ),
    Mutant(
        "the bound forgets what a rested port lets through at once",
        LOWER_BOUND,
        "return std::max(done_s - burst_s, last_s);",
        "return done_s;",
    ),
    Mutant(
        "who receives has no port of its own to be ahead",
        PORTS,
        "std::max(from.sent_steadily_s, to.received_steadily_s);",
        "from.sent_steadily_s;",
    ),
    Mutant(
        "tuning takes one more go for as good as many",
        REGRESSION,
        "(error**2 + self._deviations.rest**2)",
        "(error**2)",
    ),
    Mutant(
        "tuning takes a single go for as good as one of many",
        "patallreduce/decisions/times.py",
        " * (1 + 1 / goes)",
        "",
    ),
    Mutant(
        "a cut tells of its own size only",
        REGRESSION,
        "alike = self.correlation(apart / self.own_octaves) * self",
        "alike = (apart == 0) * self",
    ),
    Mutant(
        "a kink between two sizes is where the regression has it",
        REGRESSION,
        " + self._kinks(points)",
        "",
    ),
    Mutant(
        "several buckets of a direct exchange show two latencies each",
        DIRECT_EXCHANGE,
        "all_until_s[rank] += values_s + sums_s;",
        "values_until_s[rank] = all_until_s[rank] += values_s + sums_s;",
    ),
    Mutant(
        "a direct exchange lets all ranks go together",
        "csrc/algorithms/shares.cpp",
        "as_much += std::min(of_other, share);",
        "as_much += of_other;",
    ),
    Mutant(
        "shares of a direct exchange are priced as if they could be cut anywhere",
        DIRECT_EXCHANGE,
        "expected.earliest(segments);",
        "expected.earliest(1 << 20);",
    ),
    Mutant(
        "later plans are taken to know nothing",
        ROLLOUT,
        "of_bucket_s[rank] += known_s;",
        "of_bucket_s[rank] += 0 * known_s;",
    ),
    Mutant(
        "algorithms take turns whenever the other seems a little better",
        SEARCH,
        "constexpr double change_share = 0.5;",
        "constexpr double change_share = 0;",
    ),
    Mutant(
        "a change costs beside a barrier, too",
        SEARCH,
        "candidate->name != every.before && !every.barrier;",
        "candidate->name != every.before;",
    ),
    Mutant(
        "the margin grows with what is computed",
        SEARCH,
        "constexpr double most_margin = 0.06;",
        "constexpr double most_margin = HUGE_VAL;",
    ),
    Mutant(
        "buckets are grouped for whoever takes many messages",
        SEARCH,
        "if (messages <= most_messages && of_candidate > most_messages) continue;",
        "",
    ),
    Mutant(
        "the usual plan is taken however far ranks are apart",
        "csrc/selection/choices.cpp",
        "usual.times >= (agreed ? usually : 1) && as_before",
        "usual.times >= (agreed ? usually : 1)",
    ),
    Mutant(
        "a direct exchange tells nothing of ports",
        "csrc/algorithms/registry.cpp",
        "Sends::to_all_at_once),",
        "Sends::otherwise),",
    ),
    Mutant(
        "what ranks compute between all-reduces does not count",
        ROLLOUT,
        "std::max(last_results_s[rank], all_s) + value(forecast.compute_s, rank);",
        "std::max(last_results_s[rank], all_s);",
    ),
    Mutant(
        "an iteration begins with idle ports, whatever still drains",
        ROLLOUT,
        "finish_s(i == 0 ? ways : then, forecast.buckets, expected_s, real_s, busy);",
        "finish_s(i == 0 ? ways : then, forecast.buckets, expected_s, real_s, busy = {});",
    ),
    Mutant(
        "only one iteration is looked at",
        "csrc/selection/rollout.h",
        "constexpr int look_ahead = 8; ",
        "constexpr int look_ahead = 2; ",
    ),
    Mutant(
        "samples are all as forecast",
        ROLLOUT,
        "const double side = sample == 0 ? 0 : sample % 2 == 1 ? 1 : -1;",
        "const double side = 0;",
    ),
    Mutant(
        "a plan needs no margin",
        SEARCH,
        "earliest(always, plain.front(), margin_s * horizon, far_end_s)",
        "earliest(always, plain.front(), 0, far_end_s)",
    ),
    Mutant(
        "only plans for good are priced",
        SEARCH,
        "const Policy& best = earliest(once, usual,",
        "const Policy& best = earliest({}, usual,",
    ),
    Mutant(
        "what is done once is followed by calls without plans",
        SEARCH,
        "once.push_back({candidate, ways, usual.now, ends_s});",
        "once.push_back({candidate, ways, plain.front().now, ends_s});",
    ),
    Mutant(
        "each bucket's chain has its own order",
        ROLLOUT,
        "ways[b].algorithm->uses == Uses::order ? expected_s.back() : expected_s[b];",
        "expected_s[b];",
    ),
    Mutant(
        "each bucket's chain is planned in its own order",
        SEARCH,
        "for (const double arrival_s : forecast.arrivals_s.back())",
        "for (const double arrival_s : forecast.arrivals_s.front())",
    ),
    Mutant(
        "a job has fallen into step after any two iterations",
        ROLLOUT,
        "settled_ = std::abs(iteration_s_ - before_s) <= iteration_s_ / 1024 &&",
        "settled_ = !state_s_.empty() ||",
    ),
    Mutant(
        "what takes long to simulate is never priced",
        SEARCH,
        "const bool nearly_best = margin_ >= 0 &&",
        "const bool nearly_best = margin_ >= 0 ||",
    ),
    Mutant(
        "a change has to pay within the iterations that are looked at",
        "csrc/selection/policy.h",
        "constexpr int horizon = 16;",
        "constexpr int horizon = look_ahead;",
    ),
    Mutant(
        "calls without plans are priced as if they knew who is late",
        SEARCH,
        "segments, false}",
        "segments, true}",
    ),
    Mutant(
        "a chain may grow beside other buckets",
        SEARCH,
        "if (candidate->dynamic() && (!doubtful || buckets > 1)) continue;",
        "if (candidate->dynamic() && !doubtful) continue;",
    ),
    Mutant(
        "a plan's order is that of the first forecast like it",
        SEARCH,
        "constexpr double orders_per_scale = 1024, ",
        "constexpr double orders_per_scale = 64, ",
    ),
    Mutant(
        "each rank has its node's port to itself",
        SELECTOR,
        "link.bytes_per_s /= slower;",
        "link.bytes_per_s /= 1;",
    ),
    Mutant(
        "measured times are those of a port to itself",
        SELECTOR,
        "link.transfers_s) seconds *= slower;",
        "link.transfers_s) seconds *= 1;",
    ),
    Mutant(
        "as many partners fill a rank's share of its node's port",
        SELECTOR,
        "link.partners = std::max(link.partners / ranks, 1.0);",
        "link.partners = std::max(link.partners, 1.0);",
    ),
    Mutant(
        "what was measured of ranks that arrive together counts where one is late, too",
        SELECTOR,
        "if (*first_s == *last_s)\n",
        "if (*first_s <= *last_s)\n",
    ),
    Mutant(
        "rules of calls alone count beside others",
        SELECTOR,
        "by_rule(rules_.beside_others, ",
        "by_rule(rules_.alone, ",
    ),
    Mutant(
        "every call may take another algorithm for next to nothing",
        SELECTOR,
        "constexpr double margin_scales = 0.06;",
        "constexpr double margin_scales = 0;",
    ),
    Mutant(
        "who waits for whom does not matter to a single call",
        "csrc/selection/price.cpp",
        "constexpr double average_weight = 0.1;",
        "constexpr double average_weight = 0;",
    ),
    Mutant(
        "long gaps between arrivals are cut to nothing",
        "csrc/selection/pattern.cpp",
        "constexpr double longest_gap_scales = 4;",
        "constexpr double longest_gap_scales = 0.25;",
    ),
    Mutant(
        "a growing chain knows who comes next at once",
        "csrc/selection/schedules.cpp",
        "begins_s[place] = std::max(begins_s[place], tells_s + 2 * latency_s);",
        "begins_s[place] = std::max(begins_s[place], arrivals_s[place]);",
    ),
    Mutant(
        "all ranks wait for a plan, whatever it takes",
        PLANNER,
        "const bool may_wait = wait_ <= most_wait_;",
        "const bool may_wait = true;",
    ),
    Mutant(
        "what is known is worked out in every iteration",
        PLANNER,
        "if (!left_ || (left_->usual && !confirms)) return false;",
        "if (!left_) return false;",
    ),
    Mutant(
        "one partner fills every port",
        "csrc/algorithms/all_reduce/direct_exchange.cpp",
        "std::min(link.partners, std::max(ranks - 1, 1.0));",
        "1;",
    ),
    Mutant(
        "beside a barrier ranks start when they are let go",
        ROLLOUT,
        "forecast.barrier ? largest(last_results_s) : -HUGE_VAL;",
        "-HUGE_VAL;",
    ),
]
