#include "gpu/device/failure_of.h"

#include "errors.h"

namespace patallreduce::gpu {

using executor::Failure;
using executor::Kind;

Failure failure_of(std::exception_ptr error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const TransportTimeout& timeout) {
    return {Kind::timeout, timeout.rank, timeout.what()};
  } catch (const PeerLostError& lost) {
    return {Kind::lost, lost.rank, lost.what()};
  } catch (const TransportError& failed) {
    return {Kind::transport, failed.rank, failed.what()};
  } catch (const std::exception& other) {
    return {Kind::transport, rank, concat("rank ", rank, ": ", other.what())};
  }
}

}  // namespace patallreduce::gpu
