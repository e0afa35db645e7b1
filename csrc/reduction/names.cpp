// Names and sizes of dtypes and ops.
#include <stdexcept>

#include "errors.h"
#include "reduction/reduction.h"

namespace patallreduce::reduction {

namespace {

struct DtypeFacts {
  const char* name;
  std::size_t bytes;
  bool floating;
};

// In the order of the enumerators.
constexpr DtypeFacts dtypes[dtype_count] = {
    {"float32", 4, true}, {"float64", 8, true}, {"float16", 2, true}, {"bfloat16", 2, true},
    {"int32", 4, false},  {"int64", 8, false},  {"uint8", 1, false},
};
constexpr const char* ops[op_count] = {"sum", "avg", "min", "max", "prod"};

}  // namespace

const char* name(Dtype dtype) { return dtypes[int(dtype)].name; }
const char* name(Op op) { return ops[int(op)]; }
std::size_t size_of(Dtype dtype) { return dtypes[int(dtype)].bytes; }
bool is_floating(Dtype dtype) { return dtypes[int(dtype)].floating; }

Dtype find_dtype(const std::string& name) {
  std::string known;
  for (int i = 0; i < dtype_count; ++i) {
    if (name == dtypes[i].name) return Dtype(i);
    known += (i ? ", " : "") + std::string(dtypes[i].name);
  }
  throw std::invalid_argument(concat("expected a dtype of ", known, "; got \"", name, "\""));
}

Op find_op(const std::string& name) {
  std::string known;
  for (int i = 0; i < op_count; ++i) {
    if (name == ops[i]) return Op(i);
    known += (i ? ", " : "") + std::string(ops[i]);
  }
  throw std::invalid_argument(concat("expected an op of ", known, "; got \"", name, "\""));
}

}  // namespace patallreduce::reduction
