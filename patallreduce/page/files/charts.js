// The charts over iterations: lateness, pace, and how good the predictions were.

const BLUE = "#0072B2", YELLOW = "#F0E442", VERMILION = "#D55E00"; // Okabe and Ito's
const LATE = [[0, "#fff7ec"], [0.25, "#fdd49e"], [0.5, "#fc8d59"], [0.75, "#d7301f"], [1, "#7f0000"]];
const GREY = "#c8c8c8";
// No bar of buttons: one of them would send the data to a server.
const CONFIG = { responsive: true, displayModeBar: false };
const MOST_SHARES = 60; // bars of the histogram

function layoutOf(height, more) {
  return {
    height,
    font: { size: 14, color: "#222" },
    margin: { l: 70, r: 20, t: 20, b: 55 },
    hoverlabel: { bgcolor: "#222", font: { size: 14, color: "#fff" }, align: "left" },
    legend: { orientation: "h", y: 1, yanchor: "bottom" },
    ...more,
  };
}

function rankAxis(chosen) {
  // As names: with a part of the ranks there are no gaps between them.
  return {
    type: "category",
    categoryorder: "array",
    categoryarray: chosen.map(String),
    range: [chosen.length - 0.5, -0.5], // from top to bottom
    title: { text: "rank" },
    automargin: true,
  };
}

function rankHeight(chosen) {
  return 95 + chosen.length * Math.max(8, Math.min(32, 600 / chosen.length));
}

function drawHeat(model, view) {
  const { chosen, columns } = view;
  const late = binned(model.lateness, model.ranks, chosen, columns);
  const predicted = binned(view.predicted, model.ranks, chosen, columns);
  const worst = columns.map((_, column) => Math.max(0, ...late.map((row) => row[column])));
  const names = columnNames(model, columns);
  const trace = {
    type: "heatmap",
    x: columns.map(([begin]) => model.iterations[begin]),
    y: chosen.map(String),
    z: late.map((row) => row.map(milliseconds)),
    customdata: late.map((row, at) => row.map((time, column) => [
      names[column], milliText(time), milliText(predicted[at][column])])),
    hovertemplate: "%{customdata[0]}<br>rank %{y}<br>late by %{customdata[1]}" +
      "<br>predicted: %{customdata[2]}<extra></extra>",
    hoverongaps: false,
    zmin: 0,
    zmax: quantile(worst, 0.95) / 1e3 || 1,
    colorscale: LATE,
    colorbar: { title: { text: "late by [ms]", side: "right" }, thickness: 14, outlinewidth: 0 },
  };
  document.getElementById("heat-note").textContent =
    `${pooledNote(columns)} Grey is not known; the colours end at what 5 % exceed.`;
  const layout = layoutOf(rankHeight(chosen), {
    plot_bgcolor: GREY,
    xaxis: { title: { text: "iteration" }, showgrid: false, zeroline: false },
    yaxis: { ...rankAxis(chosen), showgrid: false },
  });
  return Plotly.react("heat", [trace], layout, CONFIG);
}

function drawPace(model, view) {
  const kinds = [
    { planned: 1, name: "with a plan", color: BLUE, symbol: "circle" },
    { planned: 0, name: "without", color: VERMILION, symbol: "x-thin-open" },
  ];
  const traces = kinds.map(({ planned, name, color, symbol }) => {
    const of = model.pace.map((time, at) => (model.planned[at] === planned ? time : UNKNOWN));
    const times = binned(of, 1, [0], view.columns)[0];
    return {
      type: "scatter",
      mode: "markers",
      name,
      x: view.columns.map(([begin]) => model.iterations[begin]),
      y: times.map(milliseconds),
      text: columnNames(model, view.columns),
      hovertemplate: `%{text}<br>${name}: %{y:.1f} ms<extra></extra>`,
      marker: { color, symbol, size: 6, line: { width: 1.5, color } },
    };
  });
  document.getElementById("pace-note").textContent =
    `From the end of the iteration before to its own. ${pooledNote(view.columns)}`;
  return Plotly.react("pace", traces, layoutOf(360, {
    showlegend: true,
    xaxis: { title: { text: "iteration" }, zeroline: false },
    yaxis: { title: { text: "time [ms]" }, rangemode: "tozero" },
  }), CONFIG);
}

function drawErrors(model, view) {
  const { chosen, begin, end } = view;
  const errors = [];
  for (let at = begin; at < end; at++) {
    for (const rank of chosen) {
      const error = model.error[at * model.ranks + rank];
      if (error !== UNKNOWN) errors.push(error / 1e3);
    }
  }
  const [low, high] = [quantile(errors, 0.005) ?? 0, quantile(errors, 0.995) ?? 0];
  const width = (high - low) / MOST_SHARES || 1;
  const counts = new Array(MOST_SHARES + 1).fill(0);
  for (const error of errors) {
    if (error >= low && error <= high) counts[Math.floor((error - low) / width)]++;
  }
  document.getElementById("error-note").textContent = errors.length
    ? `The histogram leaves out the outermost 1 % of ${errors.length.toLocaleString("en")}.`
    : "Nothing was predicted here.";
  const bars = {
    type: "bar",
    x: counts.map((_, at) => low + (at + 0.5) * width),
    y: counts.map((count) => (100 * count) / (errors.length || 1)),
    width,
    marker: { color: BLUE },
    hovertemplate: "%{x:.1f} ms: %{y:.2f} %<extra></extra>",
  };
  return Plotly.react("errors", [bars], layoutOf(340, {
    xaxis: { title: { text: "error [ms]" } },
    yaxis: { title: { text: "of the predictions [%]" } },
  }), CONFIG);
}

function drawErrorOverTime(model, view) {
  const absolute = model.error.map((time) => (time === UNKNOWN ? time : Math.abs(time)));
  const of = binned(absolute, model.ranks, view.chosen, view.columns);
  const column = (at) => of.map((row) => row[at]).filter((time) => time !== UNKNOWN);
  const x = view.columns.map(([begin]) => model.iterations[begin]);
  const lines = [
    { name: "worst rank", share: 1, color: VERMILION, dash: "dot" },
    { name: "median rank", share: 0.5, color: BLUE, dash: "solid" },
  ].map(({ name, share, color, dash }) => ({
    type: "scatter",
    mode: x.length > 1 ? "lines" : "markers",
    name,
    x,
    y: view.columns.map((_, at) => quantile(column(at), share)).map((t) => t === null ? t : t / 1e3),
    text: columnNames(model, view.columns),
    hovertemplate: `%{text}<br>${name}: %{y:.1f} ms<extra></extra>`,
    line: { color, dash, width: 1.5 },
  }));
  return Plotly.react("error-over-time", lines, layoutOf(340, {
    showlegend: true,
    xaxis: { title: { text: "iteration" }, zeroline: false },
    yaxis: { title: { text: "absolute error [ms]" }, rangemode: "tozero" },
  }), CONFIG);
}
