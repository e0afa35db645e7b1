// Ranks of one process that reach each other over UCX.
#pragma once

#include "check.h"
#include "transport/ucx.h"

namespace patallreduce::native {

inline std::vector<std::shared_ptr<transport::Ucx>> over_ucx(
    const transport::UcxLibrary& library, int ranks, Random& random,
    const transport::UcxChoice& choice = {}) {
  const transport::Key key{random(), random()};
  std::vector<std::shared_ptr<transport::Ucx>> made;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    made.push_back(std::make_shared<transport::Ucx>(library, rank, ranks, key, choice));
    addresses.push_back(made.back()->address());
  }
  for (const auto& transport : made) transport->connect(addresses);
  return made;
}

}  // namespace patallreduce::native
