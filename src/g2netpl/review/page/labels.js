// Is this class in the picture?

import { $, YES, ask, element, page, percent, showKnown } from "/page.js";

const NO = 0;

export function start() {
  for (const kind of ["yes", "no"]) $(kind).onclick = () => give(kind);
}

export const keys = {
  y: () => give("yes"), ArrowRight: () => give("yes"),
  n: () => give("no"), ArrowLeft: () => give("no"),
  "/": () => {
    $("choice").open = true;
    $("search").focus();
  },
};

export const skip = () => give("skip");

function give(kind) {
  const { column, order, class: name } = page.upcoming[0] ?? {};
  const field = kind === "skip" ? "skipped" : kind;
  page.answer({ column, answer: kind, order }, `${name}: ${field}`, { [field]: 1 });
}

export const subject = (question) => question.class;

export function show(question) {
  ask(...wording(question.class));
  $("why").textContent = reason(question);
  $("class-name").textContent = question.class;
  showSaid(question);
  showKnown(question.known);
  showGuesses(question.guesses);
}

function wording(name) {
  const strong = document.createElement("strong");
  const isolated = document.createElement("bdi");
  isolated.textContent = name;
  strong.append(isolated);
  const plain = /^[a-z][a-z -]*$/.test(name);
  if (!plain) return ["Is “", strong, "” in this picture?"];
  if (/[^su]s$/.test(name)) return ["Are there ", strong, " in this picture?"];
  const article = /^(a|e(?!u)|i|o(?!ne)|u(?!ni|se|r|k))/.test(name) ? "an" : "a";
  return [`Is there ${article} `, strong, " in this picture?"];
}

function reason({ order, soft, predicted, value, column, has_soft }) {
  const { known } = page.state.classes.find((each) => each.column === column);
  const says = has_soft ? "The soft label" : "The prediction";
  const rare = known === 1 ? "1 picture is known to show it" : `${known} pictures are known to show it`;
  if (order === "useful" && soft !== null) return `${says} is unsure, and ${rare}.`;
  if (order === "disagreement" && soft !== null && predicted !== null) {
    return `Soft label and prediction are ${Math.round(100 * Math.abs(soft - predicted))} points apart.`;
  }
  if (order === "doubtful") return `The labels say ${word(value)}; the network doubts it.`;
  return "Drawn at random.";
}

const word = (value) => (value === YES ? "yes" : value === NO ? "no" : "unknown");

function showSaid({ value, soft, predicted, has_soft }) {
  const rows = [...textRow("Label", word(value))];
  if (has_soft) rows.push(...(soft === null ? [] : barRow("Soft label", soft)));
  else if (predicted === null) predicted = soft;
  rows.push(...(predicted === null ? textRow("Prediction", "not kept") : barRow("Prediction", predicted)));
  $("said").replaceChildren(...rows);
}

const textRow = (name, text) => [element("dt", name), element("dd", text, "text")];

function barRow(name, chance) {
  const track = element("span", "", "track");
  const filled = document.createElement("span");
  filled.style.width = `${100 * chance}%`;
  track.append(filled);
  const value = document.createElement("dd");
  value.append(track, element("span", percent(chance), "number"));
  return [element("dt", name), value];
}

function showGuesses(guesses) {
  $("likely").hidden = $("guesses").hidden = !guesses.length;
  const rows = guesses.map(({ name, soft, predicted }) => {
    const row = document.createElement("tr");
    const head = document.createElement("td");
    head.append(element("bdi", name));
    row.append(head, element("td", percent(soft)), element("td", percent(predicted)));
    return row;
  });
  $("guesses").tBodies[0].replaceChildren(...rows);
}
