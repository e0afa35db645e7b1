// Tree sums: the tree's arithmetic, the local subtree for tests, and a communicator's reducer.
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/owned.h"
#include "bindings/waiting.h"
#include "errors.h"
#include "reduction/float_mode.h"
#include "tree_sum/messages.h"
#include "tree_sum/rank_lookup.h"
#include "tree_sum/reducer.h"
#include "tree_sum/subtree.h"

namespace patallreduce::bindings {

using reduction::DefaultFloatMode;
using reduction::Dtype;
using reduction::find_dtype;
using reduction::find_op;
using reduction::Op;
using tree_sum::Index;
using tree_sum::message_count;
using tree_sum::RankLookup;
using tree_sum::start_indices;
using tree_sum::subtree;
using tree_sum::tree_messages;
using tree_sum::TreeMessage;
using tree_sum::TreeReducer;
using tree_sum::TreeRequest;

namespace {

using namespace pybind11::literals;
using Address = std::uintptr_t;

void subtree_at(Address out, Address in, int level, std::size_t columns, const std::string& dtype,
                const std::string& op, const std::string& vectors) {
  const DefaultFloatMode mode;
  subtree(reinterpret_cast<void*>(out), reinterpret_cast<const void*>(in), level, columns,
          find_dtype(dtype), find_op(op), vectors);
}

void reduce(TreeReducer& reducer, Address data, std::int64_t count, std::int64_t columns,
            Dtype dtype, Op op, Address out, std::vector<std::int64_t> distribution,
            double timeout_s) {
  TreeRequest request;
  request.data = reinterpret_cast<const void*>(data);
  request.count = count;
  request.columns = columns;
  request.dtype = dtype;
  request.op = op;
  request.distribution = std::move(distribution);
  request.timeout_s = timeout_s;
  for (bool done = false; !done;) {
    std::shared_ptr<Ticket> ticket;
    {
      py::gil_scoped_release release;
      ticket = reducer.begin(request);
    }
    if (ticket) wait_for(*reducer.engine(), *ticket);
    py::gil_scoped_release release;
    done = reducer.finish(request, reinterpret_cast<void*>(out));
  }
}

void refuse(TreeReducer& reducer, int reason, double timeout_s) {
  TreeRequest request;
  request.refusal = reason;
  request.timeout_s = timeout_s;
  if (const auto ticket = reducer.begin(request)) wait_for(*reducer.engine(), *ticket);
}

}  // namespace

void bind_tree_sum(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> no_gil;
  m.def("subtree", &subtree_at, "out"_a, "source"_a, "level"_a, "columns"_a, "dtype"_a, "op"_a,
        "vectors"_a = "", no_gil, "The tree over 2^level rows at an address, into one row.");
  m.def("message_count", &message_count, "distribution"_a, no_gil,
        "How many nodes of the tree have children on two ranks.");
  m.def(
      "tree_messages",
      [](const std::vector<std::int64_t>& distribution) {
        std::vector<std::tuple<int, int, std::vector<Index>>> messages;
        for (TreeMessage& message : tree_messages(distribution))
          messages.emplace_back(message.from, message.to, std::move(message.roots));
        return messages;
      },
      "distribution"_a, "The (sender, receiver, roots) of the exchange with message buffering.");
  m.def(
      "ranks_of",
      [](const std::vector<std::int64_t>& distribution, const std::vector<Index>& indices) {
        const std::vector<Index> starts = start_indices(distribution);
        const RankLookup lookup(starts);
        std::vector<int> ranks;
        for (const Index x : indices) {
          PATR_CHECK(x < starts.back(), std::invalid_argument, "expected an index below ",
                     starts.back(), ", got ", x);
          ranks.push_back(lookup.rank_of(x));
        }
        return ranks;
      },
      "distribution"_a, "indices"_a, no_gil, "Which rank holds each of these elements.");
  m.attr("TREE_REFUSALS") = py::cast(
      std::vector<std::string>(tree_sum::tree_refusals.begin(), tree_sum::tree_refusals.end()));

  py::class_<TreeReducer, std::shared_ptr<TreeReducer>>(m, "TreeReducer")
      .def(py::init([](std::shared_ptr<Engine> engine) {
             return make_owned<TreeReducer>(std::move(engine));
           }),
           "engine"_a)
      .def("reduce", &reduce, "data"_a, "count"_a, "columns"_a, "dtype"_a, "op"_a, "out"_a,
           "distribution"_a, "timeout_s"_a)
      .def("refuse", &refuse, "reason"_a, "timeout_s"_a,
           "Takes part without values, so that every rank learns why.")
      .def_property_readonly("rounds", &TreeReducer::rounds);
}

}  // namespace patallreduce::bindings
