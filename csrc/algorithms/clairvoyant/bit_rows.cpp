// Clairvoyant on two bit matrices: what each rank holds, and who holds each segment.
//
//   segments of rank r    held(r)  1 0 1 1 ...   64 to a word
//   ranks with segment s  row(s)   0 1 1 0 ...   in the order of the arrivals' rests, see columns()
//   ranks that have not sent yet   1 0 1 1 ...   one row
//
// Who can send segment s is row(s) AND the last one: P / 64 words, and the first rank of the group
// is the first bit to the right of the earliest's, else of the left end. So a rank that has sent is
// one bit less, where segment trees take its whole column out and put it back.
//
// Which segment: a rank tries those that it holds, the lowest first. Within a round nobody gets
// anything new to send, so a segment that nobody can send stays so, and is marked. A rank tries in
// vain what is marked by that, and what it alone can send: both once per segment and round. The
// sink is the first to try, when all may send: what nobody but the sink has then, it need not try
// again before somebody joins.
//
//   time    O((M + R N) P / 64) for M messages in R rounds
//   memory  2 bits per rank and segment, P and N rounded up to words
//   source  the messages: CLV20, Listing 2; this way to find them: ours
#include "algorithms/clairvoyant/bit_rows.h"

#include <algorithm>

namespace patallreduce::algorithms {

namespace {

using Word = std::uint64_t;
constexpr std::int32_t word_bits = 64;

std::int32_t words_for(std::int32_t bits) { return (bits + word_bits - 1) / word_bits; }
Word bit(std::int32_t n) { return Word(1) << (n % word_bits); }

class RowPeers {
 public:
  RowPeers(const Problem& problem, const Group& group)
      : ranks_words_(words_for(problem.ranks)),
        segments_words_(words_for(problem.segments)),
        root_(problem.root),
        column_of_(problem.ranks),
        rank_at_(group.columns()),
        all_(segments_words_, ~Word(0)),
        unsettled_(all_),
        no_longer_(segments_words_, 0),
        may_send_(ranks_words_, 0),
        held_(std::size_t(problem.ranks) * segments_words_),
        rows_(std::size_t(problem.segments) * ranks_words_, ~Word(0)) {
    for (std::int32_t column = 0; column < problem.ranks; ++column)
      column_of_[rank_at_[column]] = column;
    if (const std::int32_t rest = problem.segments % word_bits; rest > 0)
      all_.back() = bit(rest) - 1;
    for (std::int32_t rank = 0; rank < problem.ranks; ++rank)
      std::copy(all_.begin(), all_.end(), held(rank));
  }

  void begin(const Group& group) {
    for (const std::int32_t rank : group.joined()) allow(rank);
    first_column_ = column_of_[group.earliest()];
    root_is_here_ = group.has_root();
    const std::int32_t sink = group.ranks().front();
    if (sink != sink_ || !group.joined().empty()) unsettled_ = all_;
    sink_ = sink;
  }

  Found find(std::int32_t rank, bool is_sink) {
    const Word* wanted = is_sink ? unsettled_.data() : held(rank);
    const bool could_send = may_send(rank);
    forbid(rank);  // its own do not count
    Found found;
    for (std::int32_t w = 0; w < segments_words_ && found.peer < 0; ++w) {
      for (Word left = wanted[w] & ~no_longer_[w]; left != 0; left &= left - 1) {
        const std::int32_t segment = w * word_bits + __builtin_ctzll(left);
        found = {first_peer(segment), segment};
        if (found.peer >= 0) break;
        if (!could_send || !in_row(segment, rank)) no_longer_[w] |= bit(segment);
        if (is_sink) unsettled_[w] &= ~bit(segment);
      }
    }
    if (could_send) allow(rank);
    return found;
  }

  bool holds(std::int32_t rank, std::int32_t segment) const {
    return held(rank)[segment / word_bits] & bit(segment);
  }

  void move(std::int32_t from, std::int32_t to, std::int32_t segment) {
    take(from, segment);
    take(to, segment);
    forbid(from);
    messages_.push_back({from, to, segment});
  }

  void end(const Group&) {
    for (const Message& message : messages_) {
      allow(message.from);
      held(message.to)[message.segment / word_bits] |= bit(message.segment);
      row_word(message.segment, message.to) |= bit(column_of_[message.to]);
    }
    std::fill(no_longer_.begin(), no_longer_.end(), 0);
    messages_.clear();
  }

  std::size_t bytes() const {
    return (held_.size() + rows_.size() + 3 * all_.size() + may_send_.size()) * sizeof(Word);
  }

 private:
  struct Message {
    std::int32_t from, to, segment;
  };

  Word* held(std::int32_t rank) { return &held_[std::size_t(rank) * segments_words_]; }
  const Word* held(std::int32_t rank) const { return &held_[std::size_t(rank) * segments_words_]; }
  const Word* row(std::int32_t segment) const {
    return &rows_[std::size_t(segment) * ranks_words_];
  }
  Word& row_word(std::int32_t segment, std::int32_t rank) {
    return rows_[std::size_t(segment) * ranks_words_ + column_of_[rank] / word_bits];
  }
  bool in_row(std::int32_t segment, std::int32_t rank) const {
    return row(segment)[column_of_[rank] / word_bits] & bit(column_of_[rank]);
  }

  bool may_send(std::int32_t rank) const {
    return may_send_[column_of_[rank] / word_bits] & bit(column_of_[rank]);
  }
  void allow(std::int32_t rank) {
    may_send_[column_of_[rank] / word_bits] |= bit(column_of_[rank]);
  }
  void forbid(std::int32_t rank) {
    may_send_[column_of_[rank] / word_bits] &= ~bit(column_of_[rank]);
  }
  void take(std::int32_t rank, std::int32_t segment) {
    held(rank)[segment / word_bits] &= ~bit(segment);
    row_word(segment, rank) &= ~bit(column_of_[rank]);
  }

  // The first of the group that may send and has `segment`, or -1.
  std::int32_t first_peer(std::int32_t segment) const {
    if (root_is_here_ && may_send(root_) && in_row(segment, root_)) return root_;
    const Word* row = this->row(segment);
    const std::int32_t first_word = first_column_ / word_bits;
    const Word right_of_first = ~(bit(first_column_) - 1);
    std::int32_t w = first_word;
    Word peers = row[w] & may_send_[w] & right_of_first;
    while (peers == 0 && ++w < ranks_words_) peers = row[w] & may_send_[w];
    if (peers == 0) {
      for (w = 0; w < first_word; ++w)
        if ((peers = row[w] & may_send_[w]) != 0) break;
      if (w == first_word) peers = row[w] & may_send_[w] & ~right_of_first;
      if (peers == 0) return -1;
    }
    return rank_at_[w * word_bits + __builtin_ctzll(peers)];
  }

  const std::int32_t ranks_words_, segments_words_;
  const std::int32_t root_;
  std::vector<std::int32_t> column_of_;      // [rank]
  const std::vector<std::int32_t> rank_at_;  // [column]
  std::vector<Word> all_;                    // the bits of all segments
  std::vector<Word> unsettled_;              // segments that others than the sink may have
  std::vector<Word> no_longer_;              // segments that nobody can send in this round
  std::vector<Word> may_send_;               // columns of those who are here and have not sent
  std::vector<Word> held_;                   // [rank * segments_words + word]
  std::vector<Word> rows_;                   // [segment * ranks_words + word]
  std::vector<Message> messages_;            // in this round
  std::int32_t first_column_ = 0;            // of the earliest of the group
  std::int32_t sink_ = -1;
  bool root_is_here_ = false;
};

}  // namespace

ClairvoyantSchedule clairvoyant_bit_rows(const Problem& problem, int only) {
  return run_rounds<RowPeers>(problem, only);
}

}  // namespace patallreduce::algorithms
