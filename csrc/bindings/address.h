// Memory and streams as Python passes them: a number.
#pragma once

#include <cstdint>

namespace patallreduce::bindings {

using Address = std::uintptr_t;

inline void* at(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace patallreduce::bindings
