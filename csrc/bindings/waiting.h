// Waiting for a collective from Python.
#pragma once

#include "executor/engine.h"

namespace patallreduce::bindings {

using executor::Engine;
using executor::Ticket;

// Drives the engine until the ticket is done, with the GIL released, looking for signals in
// between. Called with the GIL; raises what the collective failed with, or the signal's exception.
void wait_for(Engine& engine, const Ticket& ticket);

}  // namespace patallreduce::bindings
