#include "selection/rules.h"

#include <algorithm>

#include "errors.h"

namespace patallreduce::selection {

using algorithms::Algorithm;
using algorithms::Bucket;
using algorithms::most_segments;
using algorithms::Uses;

Rules::Rules(std::vector<Rule> rules, const std::string& collective) : rules_(std::move(rules)) {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    PATR_CHECK(i == 0 || rules_[i - 1].most_bytes < rules_[i].most_bytes, ScheduleError,
               "rules: expected sizes that grow, got ", rules_[i].most_bytes, " bytes after ",
               rules_[i - 1].most_bytes);
    algorithms_.push_back(nullptr);
    if (rules_[i].algorithm.empty()) continue;
    const Algorithm& algorithm = algorithms::find_algorithm(rules_[i].algorithm, collective);
    PATR_CHECK(algorithm.uses != Uses::real_order, ScheduleError, "rules: expected algorithms ",
               "whose schedule is known beforehand, got ", rules_[i].algorithm);
    algorithms_.back() = &algorithm;
  }
}

const Rule* Rules::find(std::uint64_t message_bytes) const {
  const auto found = std::lower_bound(
      rules_.begin(), rules_.end(), message_bytes,
      [](const Rule& rule, std::uint64_t bytes) { return rule.most_bytes < bytes; });
  return found == rules_.end() ? nullptr : &*found;
}

std::optional<std::pair<const Algorithm*, int>> Rules::choose(int ranks, const Bucket& bucket,
                                                              const Link& link) const {
  const Rule* const rule = find(bucket.bytes);
  const Algorithm* const found = rule ? algorithms_[std::size_t(rule - rules_.data())] : nullptr;
  if (!found || ranks < 2 || bucket.elements == 0) return std::nullopt;
  const Algorithm& algorithm = *found;
  const int own = algorithms::segments_for(algorithm, ranks, bucket, link);
  if (rule->segment_bytes == 0) return std::pair(&algorithm, own);
  // Where ranks work on parts of the data, its own number is a multiple of them.
  const std::uint64_t parts = algorithm.pricing.parts ? algorithm.pricing.parts(ranks)
                              : own % ranks == 0      ? ranks
                                                      : 1;
  const std::uint64_t most = std::clamp<std::uint64_t>(bucket.elements, 1, most_segments);
  const std::uint64_t wanted = std::min(bucket.bytes / rule->segment_bytes, most);
  const std::uint64_t per_part = std::max<std::uint64_t>((wanted + parts - 1) / parts, 1);
  return std::pair(&algorithm, int(std::min(per_part * parts, most)));
}

}  // namespace patallreduce::selection
