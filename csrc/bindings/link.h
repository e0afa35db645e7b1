// A link as patallreduce's class of that name has it: its fields by name.
#pragma once

#include <pybind11/stl.h>

#include "pricing/link.h"

template <>
class pybind11::detail::type_caster<patallreduce::pricing::Link> {
 public:
  PYBIND11_TYPE_CASTER(patallreduce::pricing::Link, const_name("Link"));

  bool load(handle link, bool) {
    if (!hasattr(link, "port_share")) return false;
    value.latency_s = link.attr("latency_s").cast<double>();
    value.bytes_per_s = link.attr("bytes_per_s").cast<double>();
    value.reduce_bytes_per_s = link.attr("reduce_bytes_per_s").cast<double>();
    value.transfers_s = link.attr("transfers_s").cast<std::vector<std::pair<double, double>>>();
    value.port_share = link.attr("port_share").cast<double>();
    value.change_share = link.attr("change_share").cast<double>();
    value.partners = link.attr("partners").cast<double>();
    value.burst_bytes = link.attr("burst_bytes").cast<double>();
    value.processors = link.attr("processors").cast<int>();
    value.ports = link.attr("widths").cast<std::vector<std::int32_t>>();
    return true;
  }
};
