// Compiled programs, each made once: those used last are kept, for all threads.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "errors.h"
#include "executor/program.h"
#include "schedule/schedule_key.h"

namespace patallreduce::executor {

// `Variant`: what a program depends on besides its key.
template <typename Made, typename Variant>
class KeptPrograms {
 public:
  // `make` runs under the lock, so that nothing is made twice.
  template <typename Make>
  std::shared_ptr<const Made> get(const ScheduleKey& key, Variant variant, Make make) {
    std::lock_guard lock(mutex_);
    for (auto entry = kept_.begin(); entry != kept_.end(); ++entry) {
      if (entry->variant != variant || !(entry->key == key)) continue;
      kept_.splice(kept_.begin(), kept_, entry);
      return entry->program;
    }
    std::shared_ptr<const Made> made = make();
    kept_.push_front({key, variant, made});
    if (kept_.size() > most) kept_.pop_back();
    return made;
  }

 private:
  static constexpr std::size_t most = 256;
  struct Entry {
    ScheduleKey key;
    Variant variant;
    std::shared_ptr<const Made> program;
  };
  std::mutex mutex_;
  std::list<Entry> kept_;  // the one used last comes first
};

// An engine's.
class Programs {
 public:
  Programs(StepsSource source, int ranks) : source_(std::move(source)), ranks_(ranks) {}

  // `place`: this rank's, which is its number but in a dynamic schedule. Throws ScheduleError.
  std::shared_ptr<const Program> get(const ScheduleKey& key, int place) {
    return kept_.get(key, place, [&] {
      return compile(source_.steps(key, ranks_, place), key.segments, source_.collective(key),
                     ranks_, place == key.root);
    });
  }
  // Whether the key alone says which steps it stands for.
  bool knows(const ScheduleKey& key) const {
    try {
      return !source_.collective(key).empty();
    } catch (const ScheduleError&) {
      return false;
    }
  }
  // Whether ranks take their places as they arrive.
  bool dynamic(const ScheduleKey& key) const { return source_.dynamic(key); }

 private:
  const StepsSource source_;
  const int ranks_;
  KeptPrograms<Program, int> kept_;
};

}  // namespace patallreduce::executor
