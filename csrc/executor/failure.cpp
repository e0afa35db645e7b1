#include "executor/failure.h"

#include "errors.h"

namespace patallreduce::executor {

void raise(const Failure& failure) {
  const auto completed = static_cast<std::int64_t>(failure.completed);
  switch (failure.kind) {
    case Kind::timeout:
      throw TransportTimeout(failure.what, failure.rank, completed);
    case Kind::lost:
      throw PeerLostError(failure.what, failure.rank, completed);
    case Kind::mismatch:
      throw MismatchError(failure.what, failure.rank, completed);
    case Kind::transport:
      break;
  }
  throw TransportError(failure.what, failure.rank, completed);
}

Failure failure_of(std::exception_ptr error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const TransportTimeout& timeout) {
    return {Kind::timeout, timeout.rank, timeout.what()};
  } catch (const PeerLostError& lost) {
    return {Kind::lost, lost.rank, lost.what()};
  } catch (const MismatchError& mismatch) {
    return {Kind::mismatch, mismatch.rank, mismatch.what()};
  } catch (const TransportError& failed) {
    return {Kind::transport, failed.rank, failed.what()};
  } catch (const std::bad_alloc&) {
    return {Kind::transport, rank, concat("rank ", rank, ": out of memory")};
  } catch (const std::exception& other) {
    return {Kind::transport, rank, concat("rank ", rank, ": ", other.what())};
  }
}

}  // namespace patallreduce::executor
