#include "prediction/components.h"

namespace patallreduce::prediction {

const char* name(Component component) {
  switch (component) {
    case Component::last:
      return "last";
    case Component::average:
      return "average";
    case Component::exponential:
      return "exponential";
    case Component::phase:
      return "phase";
    case Component::additive:
      return "additive";
    case Component::proportional:
      return "proportional";
    case Component::linear:
      return "linear";
    case Component::shared:
      return "shared";
  }
  return "?";
}

}  // namespace patallreduce::prediction
