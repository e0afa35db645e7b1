// What is shown: one model, some ranks, a range of iterations, one timeline.

const byId = (name) => document.getElementById(name);
const elements = [...document.querySelectorAll("script.model")];
const shown = { model: null, view: null, place: 0 };

function chooseModel(number) {
  const model = readModel(elements[number]);
  shown.model = model;
  byId("sentences").replaceChildren(...model.sentences.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  byId("table").textContent = model.table;
  byId("won").textContent = model.won;
  byId("kept-note").textContent = keptNote(model);
  byId("shares").tBodies[0].replaceChildren(...model.shares.map(rowOfShare));
  for (const name of ["first", "last", "moment"]) {
    byId(name).min = model.iterations[0];
    byId(name).max = model.iterations.at(-1);
  }
  // Predicted lateness: how late the rank was to be, after the median rank's real arrival.
  model.predicted = model.lateness.map((late, at) =>
    late === UNKNOWN || model.error[at] === UNKNOWN ? UNKNOWN : late + model.error[at]);
  showAll();
  choosePosition(latestOf(0, model.iterations.length));
}

function rowOfShare({ bucket, elements: length, algorithm, share, planned_share: planned }) {
  const row = document.createElement("tr");
  const percent = (part) => `${(100 * part).toFixed(1)} %`;
  const texts = [bucket, length.toLocaleString("en"), algorithm, percent(share), percent(planned)];
  for (const text of texts) row.insertCell().textContent = text;
  return row;
}

function showAll() {
  byId("ranks").value = "";
  byId("first").value = shown.model.iterations[0];
  byId("last").value = shown.model.iterations.at(-1);
  return filter();
}

// Read the filter and draw what it leaves; a field that makes no sense is marked, nothing drawn.
function filter() {
  const { model } = shown;
  const chosen = ranksOf(byId("ranks").value, model.ranks);
  byId("ranks").setCustomValidity(chosen ? "" : `expected ranks such as 0-3, 7 below ${model.ranks}`);
  const [first, last] = [byId("first"), byId("last")].map((field) => field.valueAsNumber);
  const inside = model.iterations.findIndex((number) => number >= first);
  const begin = inside < 0 ? model.iterations.length : inside;
  const after = model.iterations.findIndex((number) => number > last);
  const end = after < 0 ? model.iterations.length : after;
  byId("last").setCustomValidity(begin < end ? "" : "no iterations in this range");
  if (!byId("filter").reportValidity()) return Promise.resolve();
  shown.view = { chosen, begin, end, columns: columnsOf(begin, end), predicted: model.predicted };
  byId("shown").textContent = `${end - begin} iterations of ${chosen.length} ranks`;
  return Promise.all([
    drawHeat(model, shown.view),
    drawPace(model, shown.view),
    drawErrors(model, shown.view),
    drawErrorOverTime(model, shown.view),
    showTimeline(),
  ]);
}

function showTimeline() {
  const { model, view, place } = shown;
  return drawTimeline(model, view, place);
}

// The position between two of the iteration in which a rank (of these) was latest.
function latestOf(begin, end, ranks = null) {
  const { model } = shown;
  const chosen = ranks ?? ranksOf("", model.ranks);
  let best = begin, most = UNKNOWN;
  for (let at = begin; at < end; at++) {
    for (const rank of chosen) {
      const late = model.lateness[at * model.ranks + rank];
      if (late > most) [best, most] = [at, late];
    }
  }
  return best;
}

function choosePosition(position) {
  const { model } = shown;
  shown.place = nearestKept(model, position);
  const [asked, found] = [position, model.timelines.positions[shown.place]]
    .map((at) => model.iterations[at]);
  byId("moment").value = found;
  byId("moment-note").textContent =
    found === asked ? "" : `no timeline of iteration ${asked} is held; the nearest is ${found}`;
  return showTimeline();
}

function movePlace(by) {
  const { positions } = shown.model.timelines;
  const place = Math.max(0, Math.min(positions.length - 1, shown.place + by));
  return choosePosition(positions[place]);
}

function startPage() {
  elements.forEach((element, number) => {
    byId("model").add(new Option(JSON.parse(element.textContent).model, number));
  });
  byId("of-model").hidden = elements.length < 2;
  byId("model").addEventListener("change", (event) => chooseModel(event.target.value));
  for (const name of ["ranks", "first", "last"]) byId(name).addEventListener("change", filter);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("reset", (event) => {
    event.preventDefault(); // which would also choose the first model
    showAll();
  });
  byId("moment").addEventListener("change", (event) => {
    const at = shown.model.iterations.findIndex((number) => number >= event.target.valueAsNumber);
    if (event.target.reportValidity() && at >= 0) choosePosition(at);
  });
  byId("before").addEventListener("click", () => movePlace(-1));
  byId("after").addEventListener("click", () => movePlace(1));
  chooseModel(0);
  byId("heat").on("plotly_click", ({ points: [point] }) => {
    const column = shown.view.columns[point.pointIndex[1]];
    choosePosition(latestOf(...column, [Number(point.y)]));
    byId("timeline").scrollIntoView({ behavior: "smooth", block: "center" });
  });
}

startPage();
