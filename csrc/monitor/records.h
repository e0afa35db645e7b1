// What happened in the last iterations: the leader knows all ranks, another rank only itself.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "monitor/reports.h"

namespace patallreduce::monitor {

// Per rank, seconds on the leader's clock; NaN: not known here.
struct BucketRecord {
  std::uint64_t elements = 0;
  bool planned = false;
  std::string algorithm;
  int segments = 0;
  std::vector<double> predicted_s;
  std::vector<double> arrival_s;
  std::vector<double> finish_s;
};

struct EdgeRecord {
  double fraction = 0;
  std::vector<double> at_s;
};

struct IterationRecord {
  IterationId id;
  double decided_s = 0;  // 0: no plan was made here
  int edges = 0;         // ranks whose usual progress reports were all in by then
  std::vector<double> start_s;
  std::vector<BucketRecord> buckets;
  std::vector<EdgeRecord> progress;  // by fraction
  std::vector<Host> host;            // by rank; empty: nobody told
  std::vector<double> ports = {};    // by rank, bytes per second; empty: not known here
};

class Records {
 public:
  explicit Records(int ranks);

  void take(int rank, const Started& report);
  void take(int rank, const Arrived& report);
  void take(int rank, const EdgeReached& report);
  void take(int, const Asked&) {}
  void take(int rank, const HostUsed& report);
  void take(int, const LinkUsed&) {}
  void take(const Plan& plan);
  void decided(const IterationId& id, double at_s, int edges,
               const std::vector<std::vector<double>>& predicted_s);
  void ports(const IterationId& id, const std::vector<double>& bytes_per_s);

  const std::deque<IterationRecord>& kept() const { return kept_; }
  // Of one loop, no more than so many, the newest; oldest first.
  std::vector<IterationRecord> newest(std::int64_t loop, std::size_t most) const;
  // Null: not kept.
  const IterationRecord* find(const IterationId& id) const;

 private:
  std::vector<double> unknown() const;
  IterationRecord& at(const IterationId& id, std::size_t buckets);

  int ranks_;
  std::size_t limit_;
  std::deque<IterationRecord> kept_;  // oldest first
};

}  // namespace patallreduce::monitor
