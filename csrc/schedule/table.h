// A schedule as the papers print theirs: what every rank receives and sends, round by round.
//
//   rank        0      1      2       3       4
//   0     recv  (1,0)  (2,0)  (1,1)=  (2,2)=  (1,3)=
//         send  (1,1)  (2,2)  (1,3)   .       .
//   1     recv  (0,1)  (3,1)  ...
//
//   cells   (peer, segment), or (peer, first-last); with "=" what comes replaces what is held,
//           otherwise it is added. Rounds in which nothing happens are left out.
//   source  Marendic et al., J. Supercomput. 72 (2016), Table 2
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace patallreduce::schedule {

// By rank and step.
using Rounds = std::vector<std::vector<std::int64_t>>;

// Those that the algorithm gave its steps; empty if some have none.
Rounds own_rounds(const Schedule& schedule);

// Lines of at most 100 characters, a longer cell alone excepted: more rounds continue in a further
// table below. The last line has no end.
std::string table(const Schedule& schedule, const Rounds& rounds);

}  // namespace patallreduce::schedule
