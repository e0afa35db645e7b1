// Waiting for a collective from Python.
#pragma once

#include "bindings/bindings.h"
#include "executor/engine.h"

namespace patallreduce::bindings {

using executor::Engine;
using executor::Ticket;

// Drives the engine until the ticket is done, with the GIL released, looking for signals in
// between. Called with the GIL; raises what the collective failed with, or the signal's exception.
void wait_for(Engine& engine, const Ticket& ticket);

// Calls `step` with a number of seconds until it returns true, with the GIL released, looking for
// signals in between. Called with the GIL; raises the signal's exception.
template <typename Step>
void until(const Step& step) {
  for (bool done = false; !done;) {
    {
      py::gil_scoped_release release;
      done = step(0.05);
    }
    if (!done && PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace patallreduce::bindings
