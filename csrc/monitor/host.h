// How busy a rank's host is, as far as that holds the rank up.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace patallreduce::monitor {

// Since the sample before; NaN: not known here.
struct Host {
  double waited = NAN;     // of the time in which the main thread wanted a processor: it had none
  double throttled = NAN;  // of the periods of the control group: its quota was used up
  double stolen = NAN;     // of the time of busy processors: the hypervisor gave it to others
  double faults_per_s = NAN;  // pages that were read from disk first: swapped out, or of a file
};

// Reads /proc and /sys. Not for every iteration: /proc/stat is long on large hosts.
class HostUse {
 public:
  // `root`: what stands for "/", in tests.
  explicit HostUse(std::string root = "");
  // Nothing the first time.
  std::optional<Host> sample(double now_s);

 private:
  struct Counts {  // of all time
    double at_s;
    std::optional<std::uint64_t> ran, waited;  // ns, of the main thread
    std::optional<std::uint64_t> periods, throttled;
    std::optional<std::uint64_t> busy, stolen;  // ticks, of all processors
    std::optional<std::uint64_t> faults;
  };

  Counts counts(double now_s) const;

  std::string root_;
  std::string quota_;  // the file that tells of this process's control group
  std::optional<Counts> before_;
};

}  // namespace patallreduce::monitor
