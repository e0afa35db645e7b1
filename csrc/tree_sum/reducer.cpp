#include "tree_sum/reducer.h"

#include <stdexcept>

#include "algorithms/internal_keys.h"
#include "errors.h"
#include "reduction/float_mode.h"
#include "tree_sum/subtree.h"

namespace patallreduce::tree_sum {

using executor::Call;
using executor::tree_label;
using reduction::DefaultFloatMode;
using reduction::size_of;

const std::vector<const char*> tree_refusals{
    "",
    "values that are neither a tensor nor an array",
    "values that are not float32 or float64",
    "values that are not (n,) or (n, k)",
    "values that are not dense CPU memory",
    "an unknown operation",
    "a distribution that is not one count per rank",
};

namespace {

std::size_t width(std::int64_t columns) {
  return columns < 0 ? 1 : static_cast<std::size_t>(columns);
}

std::int64_t hash_of(const std::vector<std::int64_t>& distribution) {
  if (distribution.empty()) return 0;
  std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a, by words
  for (const std::int64_t count : distribution)
    value = (value ^ static_cast<std::uint64_t>(count)) * 0x100000001b3;
  return static_cast<std::int64_t>(value | 1);
}

std::string describe(const TreeHeader& header) {
  const auto dtype = static_cast<Dtype>(header.dtype_op / 256 % 256);
  std::string text = concat(name(static_cast<Op>(header.dtype_op % 256)), " of ", name(dtype));
  if (header.columns >= 0) text += concat(" in ", header.columns, " columns");
  return text + (header.distribution != 0 ? ", a distribution given" : "");
}

bool alike(const TreeHeader& a, const TreeHeader& b) {
  return a.columns == b.columns && a.dtype_op == b.dtype_op && a.distribution == b.distribution;
}

Call call_for(const RootTable& table, int ranks) {
  Call call;
  call.count = table.size();
  call.dtype = Dtype::int64;
  call.op = Op::sum;
  call.label = tree_label;
  call.key = algorithms::table_key(call.bytes(), ranks);
  return call;
}

}  // namespace

TreeReducer::TreeReducer(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)), table_(engine_->ranks()) {}

bool TreeReducer::knows(const TreeRequest& request) const {
  return table_.has_values() && table_.counts()[engine_->rank()] == request.count &&
         table_.columns() == width(request.columns) &&
         table_.row_bytes() == table_.columns() * size_of(request.dtype);
}

std::shared_ptr<Ticket> TreeReducer::begin(const TreeRequest& request) {
  const int rank = engine_->rank(), ranks = engine_->ranks();
  ++rounds_;
  if (ranks == 1 && request.refusal == 0 && !knows(request))
    table_ = RootTable({request.count}, width(request.columns), size_of(request.dtype));
  table_.clear();
  table_.header(rank) = {request.count, request.columns,
                         65536 * request.refusal + 256 * int(request.dtype) + int(request.op),
                         hash_of(request.distribution)};
  if (request.refusal == 0 && knows(request)) {
    const DefaultFloatMode mode;
    table_.write_values(rank, request.data, request.dtype, request.op);
  }
  if (ranks == 1) return nullptr;
  return engine_->submit(table_.words(), call_for(table_, ranks), request.timeout_s);
}

void TreeReducer::agree(const TreeRequest& request) const {
  const int rank = engine_->rank(), ranks = engine_->ranks();
  for (int other = 0; other < ranks; ++other) {
    const auto refusal = static_cast<std::size_t>(table_.header(other).dtype_op / 65536);
    PATR_CHECK(refusal == 0, std::invalid_argument, "tree sum on rank ", rank, ": rank ", other,
               " gave ", tree_refusals.at(refusal));
  }
  for (int other = 1; other < ranks; ++other) {
    if (alike(table_.header(0), table_.header(other))) continue;
    std::string what =
        concat("tree sum on rank ", rank, ": rank 0 called with ", describe(table_.header(0)),
               " and rank ", other, " with ", describe(table_.header(other)));
    if (table_.header(0).distribution != 0 && table_.header(other).distribution != 0)
      what += ": the distributions differ";
    throw MismatchError(what, other);
  }
  for (int other = 0; other < ranks && !request.distribution.empty(); ++other) {
    const std::int64_t expected = request.distribution[other], got = table_.header(other).count;
    PATR_CHECK(expected == got, std::invalid_argument, "tree sum on rank ", rank,
               ": the distribution has ", expected, " elements for rank ", other, ", which gave ",
               got);
  }
}

bool TreeReducer::finish(const TreeRequest& request, void* out) {
  agree(request);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(engine_->ranks()));
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    counts[rank] = table_.header(static_cast<int>(rank)).count;
  if (!knows(request) || table_.counts() != counts) {
    table_ = RootTable(std::move(counts), width(request.columns), size_of(request.dtype));
    return false;
  }
  const DefaultFloatMode mode;
  table_.finish(out, request.dtype, request.op);
  return true;
}

}  // namespace patallreduce::tree_sum
