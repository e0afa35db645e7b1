// The parenthesised sum every rank ends with, found by running a schedule on symbols.
//
// A recv_reduce makes the sum (received + held). Addition of floating-point numbers is
// commutative to the last bit, but not associative: (a+b) and (b+a) are one sum order here,
// ((a+b)+c) and (a+(b+c)) are two. Every operation of reduction/ commutes like this, NaNs included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

// Equal sum orders have equal numbers, whichever rank and segment they belong to.
struct SumOrders {
  struct Sum {
    std::int32_t received, held;  // numbers of smaller sums
  };
  std::vector<Sum> sums;             // number r < ranks: rank r's own contribution, no sum
  std::vector<std::int32_t> result;  // [rank * segments + segment]
};

// Throws ScheduleError, naming rank and step: what `match` refuses, and deadlock.
//
// Sends never block: a message is the value at its place in the order. Messages from one rank
// to another leave and are taken in program order. That is stricter than the transports with
// tags need, so what runs here runs on every transport.
SumOrders sum_orders(const Schedule& schedule);

// "((0+1)+2)". `number` must hold each rank at most once: else the text may be endless.
std::string text(const SumOrders& orders, std::int32_t number, int ranks);

}  // namespace patallreduce::schedule
