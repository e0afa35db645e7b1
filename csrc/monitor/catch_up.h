// A thread of the leader's that works out what plans left for later.
//
// No plan waits for it, and no rank: of a processor it gets what others leave, since its priority
// is the lowest, and even of an idle one no more than a quarter; where a healthy job gets the same
// answer again and again, next to nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace patallreduce::monitor {

class CatchUp {
 public:
  // As Leader::Chooser::catch_up.
  using Work = std::function<bool(bool confirms)>;

  CatchUp() = default;
  ~CatchUp() { end(); }
  CatchUp(const CatchUp&) = delete;

  // `failed` is told what work threw; that was the last one. Again: from here on this work.
  void start(Work work, std::function<void(const std::string& why)> failed);
  // A plan may have left something.
  void wake();
  // Waits for the work at hand. Idempotent.
  void end();

 private:
  void run(const Work& work);

  std::mutex mutex_;  // guards these
  std::condition_variable changed_;
  bool woken_ = false, ended_ = false;

  std::thread thread_;
};

}  // namespace patallreduce::monitor
