#include "prediction/edges.h"

#include <algorithm>

#include "prediction/times.h"

namespace patallreduce::prediction {

namespace {

constexpr double newest_report_share = 0.3;
constexpr double usual = 0.5;  // reported in more than half of the recent iterations

}  // namespace

int slot_of(double fraction) {
  return std::clamp(int(fraction * Edges::slots), 0, Edges::slots - 1);
}

void Edges::forget() { seen_ = 0; }

void Edges::restart() {
  // The current iteration's edges are true whatever was learned before.
  learned_ = {};
}

void Edges::add(double fraction, double offset_s) {
  const int slot = slot_of(fraction);
  if (seen_ & (1u << slot)) return;
  seen_ |= 1u << slot;
  now_[slot] = {fraction, offset_s, slot};
}

void Edges::learn(double arrival_s) {
  for (int slot = 0; slot < slots; ++slot) {
    Learned& learned = learned_[slot];
    const bool came = seen_ & (1u << slot);
    if (learned.offset_s.count() == 0) {
      if (came) learned.reported = 1;
    } else {
      learned.reported += newest_report_share * (double(came) - learned.reported);
    }
    if (!came) continue;
    learned.offset_s.add(now_[slot].offset_s);
    learned.rest_s.add(arrival_s - now_[slot].offset_s);
  }
}

const Edge* Edges::newest() const {
  for (int slot = slots - 1; slot >= 0; --slot) {
    if (seen_ & (1u << slot)) return &now_[slot];
  }
  return nullptr;
}

const Edge* Edges::at(int slot) const { return seen_ & (1u << slot) ? &now_[slot] : nullptr; }

double Edges::silence_s(double offset_s) const {
  double bound_s = offset_s;
  const Edge* seen = newest();
  for (int slot = seen ? seen->slot + 1 : 0; slot < slots; ++slot) {
    const Learned& learned = learned_[slot];
    if (learned.reported <= usual) continue;
    // A bound, so the rest of a quick iteration: one deviation below the mean.
    bound_s =
        std::max(bound_s, offset_s + learned.rest_s.exponential() - learned.rest_s.deviation());
  }
  return bound_s;
}

double additive(const Edge& edge, double usual_rest_s) { return edge.offset_s + usual_rest_s; }

double proportional(const Edge& edge, double usual_offset_s, double usual_rest_s) {
  // An edge usually right at the start tells nothing of the pace.
  if (usual_offset_s <= 0) return additive(edge, usual_rest_s);
  const double pace = std::clamp(edge.offset_s / usual_offset_s, 0.1, 10.0);
  return edge.offset_s + pace * usual_rest_s;
}

double linear(const Edge& edge) { return std::min(edge.offset_s / edge.fraction, longest_s); }

}  // namespace patallreduce::prediction
