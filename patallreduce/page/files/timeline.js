// One iteration: a lane per rank with what it did, and each bucket's arrival, prediction, finish.

const ACTIVITIES = [
  { name: "computing", color: BLUE },
  { name: "waiting for the last rank", color: YELLOW },
  { name: "all-reduce", color: VERMILION },
];
const MARKS = [
  { name: "arrival", marker: { symbol: "circle", color: "#fff", size: 8 } },
  { name: "predicted arrival", marker: { symbol: "diamond", color: "#000", size: 8 } },
  { name: "finish", marker: { symbol: "line-ns", color: "#000", size: 12 } },
];

// The kept iteration nearest to a position: its place among those that are kept.
function nearestKept(model, position) {
  const { positions } = model.timelines;
  let best = 0;
  positions.forEach((kept, place) => {
    if (Math.abs(kept - position) < Math.abs(positions[best] - position)) best = place;
  });
  return best;
}

// Lists of times, each by rank: begin and end of every activity, then three per bucket.
function timesOf(model, place) {
  const { buckets, times } = model.timelines;
  const lists = (at) => 2 * ACTIVITIES.length + MARKS.length * buckets[at].length;
  let first = 0;
  for (let at = 0; at < place; at++) first += model.ranks * lists(at);
  return Array.from({ length: lists(place) }, (_, list) =>
    times.subarray(first + list * model.ranks, first + (list + 1) * model.ranks));
}

function activityTrace({ name, color }, begins, ends, chosen) {
  const known = chosen.filter((rank) => begins[rank] !== UNKNOWN && ends[rank] !== UNKNOWN);
  const spans = known.map((rank) => ends[rank] - begins[rank]);
  return {
    type: "bar",
    orientation: "h",
    name,
    y: known.map(String),
    base: known.map((rank) => milliseconds(begins[rank])),
    x: spans.map(milliseconds),
    customdata: known.map((rank, at) => [
      milliText(spans[at]), milliText(begins[rank]), milliText(ends[rank])]),
    hovertemplate: `rank %{y}: ${name} for %{customdata[0]}<br>` +
      "%{customdata[1]} to %{customdata[2]}<extra></extra>",
    marker: { color },
  };
}

function markTrace({ name, marker }, place, model, lists, chosen) {
  const buckets = model.timelines.buckets[place];
  const kind = MARKS.findIndex((mark) => mark.name === name);
  const points = buckets.flatMap(([index, algorithm, planned], bucket) => {
    const times = lists[2 * ACTIVITIES.length + MARKS.length * bucket + kind];
    const about = `bucket ${index}: ${algorithm}, ${planned ? "planned" : "not planned"}`;
    return chosen.filter((rank) => times[rank] !== UNKNOWN)
      .map((rank) => ({ rank: String(rank), time: times[rank], about }));
  });
  return {
    type: "scatter",
    mode: "markers",
    name,
    x: points.map(({ time }) => milliseconds(time)),
    y: points.map(({ rank }) => rank),
    customdata: points.map(({ time, about }) => [milliText(time), about]),
    hovertemplate: `rank %{y}: ${name} %{customdata[0]}<br>%{customdata[1]}<extra></extra>`,
    marker: { ...marker, line: { width: 1.5, color: "#000" } },
  };
}

function drawTimeline(model, view, place) {
  const lists = timesOf(model, place);
  const { chosen } = view;
  const bars = ACTIVITIES.map((activity, at) =>
    activityTrace(activity, lists[2 * at], lists[2 * at + 1], chosen));
  const marks = MARKS.map((mark) => markTrace(mark, place, model, lists, chosen));
  return Plotly.react("timeline", [...bars, ...marks], layoutOf(rankHeight(chosen) + 60, {
    barmode: "overlay",
    bargap: 0.2,
    showlegend: true,
    hovermode: "closest",
    xaxis: { title: { text: "time after the first rank's start [ms]" }, zeroline: false },
    yaxis: rankAxis(chosen),
  }), CONFIG);
}

// Which iterations have a timeline, in words.
function keptNote(model) {
  const { every, worst } = model.timelines;
  if (every === 1) return "";
  return `The page holds the timelines of one iteration in ${every}, and of the worst ${worst}, by how ` +
    `late the latest rank was; instead of another the nearest is shown.`;
}
