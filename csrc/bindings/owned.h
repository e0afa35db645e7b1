// An object with threads, held by Python: a forked child that drops it must only forget it.
//
// There its threads do not exist, its connections are the parent's, and destroying a condition
// variable that one of those threads waited for would wait for ever.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace patallreduce::bindings {

template <typename T, typename... Arguments>
std::shared_ptr<T> make_owned(Arguments&&... arguments) {
  return {new T(std::forward<Arguments>(arguments)...), [process = getpid()](T* object) {
            if (getpid() == process) delete object;
          }};
}

}  // namespace patallreduce::bindings
