// One function object of many lambdas, for std::visit.
#pragma once

namespace patallreduce {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace patallreduce
