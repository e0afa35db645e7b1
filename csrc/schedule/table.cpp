#include "schedule/table.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "errors.h"

namespace patallreduce::schedule {

namespace {

constexpr std::size_t line_length = 100;
constexpr std::size_t gap = 2;
const std::string nothing = ".";

using Row = std::map<std::int64_t, std::string>;  // round -> cell

struct Rows {
  Row recv, send;
};

std::string cell(const Step& step) {
  const char* mark = step.verb == Verb::recv ? "=" : "";
  if (step.last == step.first + 1) return concat("(", step.peer, ",", step.first, ")", mark);
  return concat("(", step.peer, ",", step.first, "-", step.last - 1, ")", mark);
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string cell_of(const Row& row, std::int64_t round) {
  const auto found = row.find(round);
  return found == row.end() ? nothing : found->second;
}

std::vector<Rows> rows_of(const Schedule& schedule, const Rounds& rounds) {
  std::vector<Rows> rows(schedule.steps.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const Steps& steps = schedule.steps[rank];
    for (std::size_t i = 0; i < steps.size(); ++i)
      (steps[i].verb == Verb::send ? rows[rank].send : rows[rank].recv)[rounds[rank][i]] +=
          cell(steps[i]);
  }
  return rows;
}

// Of every round in which something happens.
std::map<std::int64_t, std::size_t> widths_of(const std::vector<Rows>& rows) {
  std::map<std::int64_t, std::size_t> widths;
  for (const Rows& of_rank : rows) {
    for (const Row* row : {&of_rank.recv, &of_rank.send}) {
      for (const auto& [round, text] : *row) {
        std::size_t& width = widths[round];
        width = std::max({width, text.size(), std::to_string(round).size()});
      }
    }
  }
  return widths;
}

void end_line(std::string& lines) {
  lines.erase(lines.find_last_not_of(' ') + 1);
  lines += "\n";
}

}  // namespace

Rounds own_rounds(const Schedule& schedule) {
  Rounds rounds;
  for (const Steps& steps : schedule.steps) {
    std::vector<std::int64_t>& of_rank = rounds.emplace_back();
    for (const Step& step : steps) {
      if (step.round < 0) return {};
      of_rank.push_back(step.round);
    }
  }
  return rounds;
}

std::string table(const Schedule& schedule, const Rounds& rounds) {
  const std::vector<Rows> rows = rows_of(schedule, rounds);
  const auto widths = widths_of(rows);
  const std::size_t rank_width = std::max<std::size_t>(4, std::to_string(rows.size()).size());
  std::string lines;
  auto column = widths.begin();
  do {
    const auto first = column;
    std::size_t length = rank_width + gap + 4;
    for (; column != widths.end(); ++column) {
      length += gap + column->second;
      if (column != first && length > line_length) break;
    }
    const auto line = [&](const std::string& rank, const char* verb, const auto& text_in) {
      lines += padded(rank, rank_width + gap) + padded(verb, 4);
      for (auto c = first; c != column; ++c)
        lines += std::string(gap, ' ') + padded(text_in(c->first), c->second);
      end_line(lines);
    };
    if (first != widths.begin()) lines += "\n";
    line("rank", "", [](std::int64_t round) { return std::to_string(round); });
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      const auto in = [&row = rows[rank].recv](std::int64_t r) { return cell_of(row, r); };
      const auto out = [&row = rows[rank].send](std::int64_t r) { return cell_of(row, r); };
      line(std::to_string(rank), "recv", in);
      line("", "send", out);
    }
  } while (column != widths.end());
  lines.pop_back();
  return lines;
}

}  // namespace patallreduce::schedule
