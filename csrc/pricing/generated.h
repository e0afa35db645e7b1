// Prices a schedule that is never stored whole, on networks of every model, and accounts for it.
//
// The same clock as pricing/simulation.h; that one is for small schedules that are run under many
// arrivals. Here a rank's steps are made when it comes to them and forgotten when they are done.
//
// Where no rank takes messages from more than one other (ring, slt, prr), nothing in the network
// depends on the order of what happens on different ranks. Then each rank is run as far as the
// messages on their way to it allow, rather than all in the order of time: what it works on stays
// in the cache. Safe, because a message that has not left by t cannot be there before t plus its
// flight (Chandy and Misra's conservative simulation, with its deadlocks resolved by advancing all
// clocks to the next event).
//
//   cost    time: O(steps), a few 10 ns each, by rank; O(messages log ranks) else. Memory: the
//           steps between a rank's first unfinished and its last generated one, for every rank
//   source  Chandy, Misra, CACM 24 (1981), 198-206, for the order; the models' own in network.h
#pragma once

#include <cstdint>
#include <vector>

#include "pricing/account.h"
#include "pricing/network.h"
#include "schedule/step_source.h"

namespace patallreduce::pricing {

using schedule::StepSource;

// arrivals_s: one per rank, finite; empty: all 0. Throws ScheduleError for arrivals or a network
// that make no sense, ends of messages that do not match, and deadlock.
Account simulate_generated(const StepSource& source, std::uint64_t message_bytes,
                           const Network& network, const std::vector<double>& arrivals_s,
                           const Accounting& accounting = {});

}  // namespace patallreduce::pricing
