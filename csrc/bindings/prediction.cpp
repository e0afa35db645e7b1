// Predictors as Python sees them, and each component on its own for tests and statistics.
#include <pybind11/stl.h>

#include <cmath>

#include "bindings/bindings.h"
#include "errors.h"
#include "prediction/predictor.h"

namespace patallreduce::bindings {

using prediction::Component;
using prediction::component_count;
using prediction::Components;
using prediction::History;
using prediction::Job;
using prediction::Prediction;
using prediction::Predictor;

using namespace py::literals;

namespace {

py::dict said(const Components& components) {
  py::dict by_name;
  for (std::size_t c = 0; c < component_count; ++c) {
    if (!std::isnan(components.value[c])) by_name[name(Component(c))] = components.value[c];
  }
  return by_name;
}

// What a component of History says after `values`.
double predict_component(const std::string& component, const std::vector<double>& values) {
  PATR_CHECK(!values.empty(), ScheduleError, "expected at least one value, got none");
  History history;
  for (const double value : values) history.add(value);
  if (component == name(Component::last)) return history.last();
  if (component == name(Component::average)) return history.average();
  if (component == name(Component::exponential)) return history.exponential();
  if (component == name(Component::phase)) return history.phase();
  throw ScheduleError(
      concat("unknown component '", component, "'; known here: last, average, exponential, phase"));
}

}  // namespace

void bind_prediction(py::module_& m) {
  py::class_<Prediction>(m, "Prediction")
      .def_readonly("arrival_s", &Prediction::arrival_s)
      .def_readonly("error_s", &Prediction::error_s)
      .def_readonly("known", &Prediction::known)
      .def_readonly("silence_s", &Prediction::silence_s)
      .def("__repr__", [](const Prediction& p) {
        return concat("<Prediction ", p.known ? "" : "unknown, ", "arrival_s ", p.arrival_s,
                      ", error_s ", p.error_s, ">");
      });
  py::class_<Job, std::shared_ptr<Job>>(m, "Job",
                                        "What the predictors of one job's ranks learn together.")
      .def(py::init([](int ranks) {
             PATR_CHECK(ranks >= 1, ScheduleError, "expected ranks >= 1, got ", ranks);
             return std::make_shared<Job>(ranks);
           }),
           "ranks"_a);
  py::class_<Predictor>(m, "Predictor",
                        "Predicts one rank's arrivals; all times in seconds on one clock. Input "
                        "that cannot be is ignored, never raised.")
      .def(py::init<>())
      .def(py::init<std::shared_ptr<Job>>(), "job"_a)
      .def("start", &Predictor::start, "at_s"_a)
      .def("edge", &Predictor::edge, "fraction"_a, "at_s"_a)
      .def("result", &Predictor::result, "at_s"_a)
      .def("arrive", &Predictor::arrive, "bucket"_a, "at_s"_a)
      .def("finish", &Predictor::finish, "arrivals_s"_a)
      .def("predict", &Predictor::predict, "bucket"_a, "now_s"_a, "pauses_apart_s"_a = HUGE_VAL)
      .def(
          "components",
          [](const Predictor& predictor, std::size_t bucket, double now_s) {
            return said(predictor.components(bucket, now_s));
          },
          "bucket"_a, "now_s"_a, "{name: arrival_s} of the components that say something.")
      .def_property_readonly("chosen", [](const Predictor& p) { return name(p.chosen()); });
  m.def("predict_component", &predict_component, "component"_a, "values"_a);
  m.def("component_names", [] {
    std::vector<std::string> names;
    for (std::size_t c = 0; c < component_count; ++c) names.push_back(name(Component(c)));
    return names;
  });
}

}  // namespace patallreduce::bindings
