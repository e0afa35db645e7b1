// From an exception to the failure that an engine tells all ranks.
#pragma once

#include <exception>

#include "executor/ticket.h"

namespace patallreduce::gpu {

// `rank`: to be named for what names nobody itself.
executor::Failure failure_of(std::exception_ptr error, int rank);

}  // namespace patallreduce::gpu
