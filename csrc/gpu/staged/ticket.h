// One collective of a StagedCarrier.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "executor/call.h"
#include "executor/ticket.h"
#include "gpu/staged/copies.h"

namespace patallreduce::gpu {

using executor::Call;
using executor::Ticket;

struct StagedTicket {
  enum class Phase : std::uint8_t {
    contributing,  // its contribution is not there yet
    running,       // in the engine
    returning,     // the copy of its result is queued
    done,          // seen on the host
    failed,
  };

  // Null until the engine has its contribution.
  std::shared_ptr<Ticket> engine_ticket() const { return has_arrived() ? in_engine : nullptr; }
  double arrival_s() const { return has_arrived() ? arrived_s : 0; }
  double finish_s() const { return phase.load() >= Phase::done ? finished_s : 0; }
  // Throws what it failed with.
  void check() const {
    if (phase.load() == Phase::failed) std::rethrow_exception(failure);
  }

  Call call;
  void* home = nullptr;
  std::uint64_t number = 0;
  double timeout_s = 0;
  double deadline_s = 0;
  StagedCopy copy;

  std::atomic<Phase> phase{Phase::contributing};
  // Written before the phase that they belong to.
  std::shared_ptr<Ticket> in_engine;
  double arrived_s = 0;
  double finished_s = 0;
  std::exception_ptr failure;

 private:
  bool has_arrived() const { return phase.load() != Phase::contributing; }
};

}  // namespace patallreduce::gpu
