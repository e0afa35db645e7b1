// Stream programs as plain data.
#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "gpu/nccl/program.h"

namespace patallreduce::bindings {

using gpu::AwaitedGroups;
using gpu::Group;
using gpu::Memory;
using gpu::Stage;
using gpu::StreamProgram;
using gpu::Transfer;
using schedule::Schedule;

namespace {

using namespace pybind11::literals;
using Message = std::tuple<int, int, int, std::string>;
using Sum = std::tuple<int, int, std::string, std::string, std::string, int, std::string, bool>;
using Groups = std::vector<std::pair<int, int>>;  // lane, stage
using GroupRow = std::tuple<int, int, Groups, std::vector<Message>, std::vector<Message>>;
using StageRow = std::tuple<int, std::vector<GroupRow>, Groups, std::vector<Sum>>;

std::string name(Memory memory) {
  switch (memory) {
    case Memory::home:
      return "home";
    case Memory::scratch:
      return "scratch";
    case Memory::shadow:
      return "shadow";
    default:
      return "";
  }
}

std::vector<Message> rows(const std::vector<Transfer>& transfers, int lane) {
  std::vector<Message> all;
  for (const Transfer& one : transfers) {
    if (one.lane == lane) all.emplace_back(one.peer, one.first, one.last, name(one.memory));
  }
  return all;
}

Groups groups_of(const AwaitedGroups& awaited) {
  Groups all;
  for (std::size_t lane = 0; lane < awaited.size(); ++lane) {
    if (awaited[lane] >= 0) all.emplace_back(int(lane), awaited[lane]);
  }
  return all;
}

std::vector<StageRow> stages(const StreamProgram& program) {
  std::vector<StageRow> all;
  for (const Stage& stage : program.stages) {
    std::vector<GroupRow> groups;
    for (int lane = 0; lane < program.lanes; ++lane) {
      const Group& group = stage.groups[lane];
      if (!group.has_messages) continue;
      groups.emplace_back(lane, group.awaited_sums, groups_of(group.awaited_groups),
                          rows(stage.sends, lane), rows(stage.receives, lane));
    }
    std::vector<Sum> sums;
    for (const gpu::Sum& one : stage.sums) {
      sums.emplace_back(one.first, one.last, name(one.out), name(one.also), name(one.received),
                        one.receive, name(one.held), one.callers);
    }
    all.emplace_back(stage.region, std::move(groups), groups_of(stage.awaited_groups),
                     std::move(sums));
  }
  return all;
}

}  // namespace

void bind_gpu_programs(py::module_& m) {
  py::class_<StreamProgram, std::shared_ptr<StreamProgram>>(
      m, "StreamProgram", "One rank's share of a schedule, as groups of messages and sums.")
      .def(py::init([](const Schedule& schedule, int rank, int ports, int lanes, int regions,
                       bool early_out, bool scales) {
             py::gil_scoped_release release;
             return std::const_pointer_cast<StreamProgram>(
                 gpu::compile(schedule, rank, {ports, lanes, regions, early_out, scales}));
           }),
           "schedule"_a, "rank"_a, py::kw_only(), "ports"_a = 1, "lanes"_a = 1, "regions"_a = 2,
           "early_out"_a = false, "scales"_a = false)
      .def_readonly("rank", &StreamProgram::rank)
      .def_readonly("result_stage", &StreamProgram::result_stage)
      .def_readonly("lanes", &StreamProgram::lanes)
      .def_readonly("regions", &StreamProgram::regions)
      .def_readonly("shadow", &StreamProgram::shadow)
      .def_property_readonly(
          "stages", &stages,
          "Per stage: its region of scratch; its groups, each with its lane, the "
          "stage whose sums it waits for, the groups it waits for (lane, stage), "
          "sends and receives; the groups its sums wait for; sums. See "
          "csrc/gpu/nccl/program.h.")
      .def_property_readonly(
          "result_groups",
          [](const StreamProgram& program) { return groups_of(program.result_groups); },
          "The last groups that touch home: (lane, stage).");
}

}  // namespace patallreduce::bindings
