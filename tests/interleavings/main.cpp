// interleavings FIRST COUNT: runs that many seeds, a batch in a process of its own; tells of each
// in which something did not hold, and then exits with 1. interleavings SEED: one, and what it is
// of.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "scenario.h"

namespace {

using patallreduce::interleavings::description;
using patallreduce::interleavings::violation;

constexpr unsigned long batch = 500;  // what the dead hold is never released

bool holds(unsigned long seed) {
  const std::string wrong = violation(seed);
  if (wrong.empty()) return true;
  std::printf("seed %lu: %s\n%s\n", seed, wrong.c_str(), description(seed).c_str());
  std::fflush(stdout);
  return false;
}

// In a process of their own, which says by a pipe where it is, should it crash.
bool holds_in_process(unsigned long first, unsigned long end) {
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    bool good = true;
    for (unsigned long seed = first; seed < end; ++seed) {
      if (write(pipe_fds[1], &seed, sizeof seed) != sizeof seed) std::abort();
      good = holds(seed) && good;
    }
    _exit(good ? 0 : 1);
  }
  close(pipe_fds[1]);
  unsigned long seed = first;
  while (read(pipe_fds[0], &seed, sizeof seed) == sizeof seed) {
  }
  close(pipe_fds[0]);
  int status;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::printf("seed %lu: signal %d\n", seed, WTERMSIG(status));
  return status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long first = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  if (argc == 2) {
    std::printf("%s\n", description(first).c_str());
    return holds(first) ? 0 : 1;
  }
  const unsigned long count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1000;
  bool good = true;
  for (unsigned long seed = first; seed < first + count; seed += batch)
    good = holds_in_process(seed, std::min(seed + batch, first + count)) && good;
  if (good) std::printf("%lu seeds from %lu on: all that is promised held\n", count, first);
  return good ? 0 : 1;
}
