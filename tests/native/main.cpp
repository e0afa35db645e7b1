// core_tests SEED [LIBUCP [NAME]]: runs every test, or the one of that name; UCX's only if its
// library is given.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "check.h"

namespace patallreduce::native {

namespace {
unsigned long seed;
std::string only;
}  // namespace

void failed(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: failed with seed %lu: %s\n", file, line, seed, what.c_str());
  std::abort();
}

void run(const char* name, const std::function<void(Random&)>& test) {
  if (!only.empty() && only != name) return;
  const double start_s = now_s();
  Random random(seed);
  test(random);
  std::printf("%-12s passed in %.1f s\n", name, now_s() - start_s);
  std::fflush(stdout);
}

}  // namespace patallreduce::native

int main(int argc, char** argv) {
  using namespace patallreduce::native;
  seed = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const std::string libucp = argc > 2 ? argv[2] : "";
  if (argc > 3) only = argv[3];
  run("control", test_control);
  run("places", test_places);
  run("watch", test_watch);
  run("ports", test_ports);
  run("ahead", test_ahead);
  run("descriptors", [&](Random& random) { test_descriptors(random, libucp); });
  if (!libucp.empty()) run("ucx", [&](Random& random) { test_ucx(random, libucp); });
  run("monitors", test_monitors);
  run("reports", test_reports);
  run("schedules", test_schedules);
  run("failures", test_failures);
  run("staging", test_staging);
  run("streams", test_streams);
  run("keyed_tags", test_keyed_tags);
  if (!libucp.empty()) run("strangers", [&](Random& random) { test_strangers(random, libucp); });
}
