#include "monitor/host.h"

#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace patallreduce::monitor {

namespace {

using Count = std::optional<std::uint64_t>;

// The numbers of the first line that begins with this word; of the first line for "".
std::vector<std::uint64_t> numbers(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first = word;
    if (!word.empty()) words >> first;
    if (first != word) continue;
    std::vector<std::uint64_t> found;
    for (std::uint64_t number = 0; words >> number;) found.push_back(number);
    return found;
  }
  return {};
}

Count number(const std::string& path, const std::string& word) {
  const auto found = numbers(path, word);
  return found.empty() ? std::nullopt : Count(found.front());
}

// Lines are "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1). In a container the path
// may be that of the host; the container's own group is then where the file system is mounted.
std::string quota_file(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string mounted =
        root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    for (const std::string& path : {mounted + line.substr(second + 1), mounted})
      if (number(path + "/cpu.stat", "nr_periods")) return path + "/cpu.stat";
  }
  return {};
}

// Counters that went back were others', or are of no use.
double grown(const Count& before, const Count& now) {
  return before && now && *now >= *before ? static_cast<double>(*now - *before) : NAN;
}

// Of nothing at all no part was lost.
double share(double part, double rest) {
  return part + rest > 0 ? part / (part + rest) : part + rest;
}

}  // namespace

HostUse::HostUse(std::string root) : root_(std::move(root)), quota_(quota_file(root_)) {}

std::optional<Host> HostUse::sample(double now_s) {
  const Counts now = counts(now_s);
  const auto before = std::exchange(before_, now);
  if (!before || now_s <= before->at_s) return std::nullopt;
  Host host;
  host.waited = share(grown(before->waited, now.waited), grown(before->ran, now.ran));
  const double throttled = grown(before->throttled, now.throttled);
  host.throttled = share(throttled, grown(before->periods, now.periods) - throttled);
  host.stolen = share(grown(before->stolen, now.stolen), grown(before->busy, now.busy));
  host.faults_per_s = grown(before->faults, now.faults) / (now_s - before->at_s);
  return host;
}

HostUse::Counts HostUse::counts(double now_s) const {
  Counts counts{now_s, {}, {}, {}, {}, {}, {}, {}};
  const std::string proc = root_ + "/proc";
  if (const auto times = numbers(proc + "/self/schedstat", ""); times.size() >= 2) {
    counts.ran = times[0];
    counts.waited = times[1];
  }
  if (!quota_.empty()) {
    counts.periods = number(quota_, "nr_periods");
    counts.throttled = number(quota_, "nr_throttled");
  }
  // user nice system idle iowait irq softirq steal
  if (const auto ticks = numbers(proc + "/stat", "cpu"); ticks.size() >= 8) {
    counts.busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    counts.stolen = ticks[7];
  }
  std::ifstream file(proc + "/self/stat");
  std::string line;
  std::getline(file, line);
  // Behind the name, which may hold anything: state ppid pgrp session tty tpgid flags minflt
  // cminflt majflt
  if (const std::size_t name_end = line.rfind(')'); name_end != std::string::npos) {
    std::istringstream words(line.substr(name_end + 1));
    std::string skipped;
    for (int word = 0; word < 9; ++word) words >> skipped;
    if (std::uint64_t faults = 0; words >> faults) counts.faults = faults;
  }
  return counts;
}

}  // namespace patallreduce::monitor
