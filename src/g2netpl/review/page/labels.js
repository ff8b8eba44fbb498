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
  showProbabilities(question);
  showKnown(question.known);
  showLikely(question.likely);
}

function wording(name) {
  const strong = document.createElement("strong");
  const isolated = document.createElement("bdi");
  isolated.textContent = name;
  strong.append(isolated);
  const plain = /^[a-z][a-z -]*$/.test(name);
  if (!plain) return ["Is “", strong, "” in this photo?"];
  if (/[^su]s$/.test(name)) return ["Are there ", strong, " in this photo?"];
  const article = /^(a|e(?!u)|i|o(?!ne)|u(?!ni|se|r|k))/.test(name) ? "an" : "a";
  return [`Is there ${article} `, strong, " in this photo?"];
}

function reason({ order, pseudo, predicted, value, column, has_pseudo }) {
  const { known } = page.state.classes.find((each) => each.column === column);
  const source = has_pseudo ? "pseudo-label" : "prediction";
  const count = known === 1 ? "1 photo" : known ? `${known} photos` : "no photo";
  const rare = `${count} ${known > 1 ? "are" : "is"} known to show this class`;
  const isUncertain = pseudo >= 0.25 && pseudo <= 0.75;
  if (order === "useful") return isUncertain ? `The ${source} is uncertain, and ${rare}.` : `A rare class: ${rare}.`;
  if (order === "disagreement" && pseudo !== null && predicted !== null) {
    return `Pseudo-label and prediction are ${Math.round(100 * Math.abs(pseudo - predicted))} points apart.`;
  }
  if (order === "doubtful") return `The label file has ${word(value)}; the network disagrees.`;
  return "Chosen at random.";
}

const word = (value) => (value === YES ? "yes" : value === NO ? "no" : "unknown");

function showProbabilities({ value, pseudo, predicted, has_pseudo }) {
  const rows = [...textRow("Label", word(value))];
  if (has_pseudo && pseudo !== null) rows.push(...barRow("Pseudo-label", pseudo));
  rows.push(...(predicted === null ? textRow("Prediction", "none") : barRow("Prediction", predicted)));
  $("probabilities").replaceChildren(...rows);
}

const textRow = (name, text) => [element("dt", name), element("dd", text, "text")];

function barRow(name, probability) {
  const track = element("span", "", "track");
  const filled = document.createElement("span");
  filled.style.width = `${100 * probability}%`;
  track.append(filled);
  const value = document.createElement("dd");
  value.append(track, element("span", percent(probability), "number"));
  return [element("dt", name), value];
}

function showLikely(likely) {
  $("likely-title").hidden = $("likely").hidden = !likely.length;
  const rows = likely.map(({ class: name, pseudo, predicted }) => {
    const row = document.createElement("tr");
    const head = document.createElement("td");
    head.append(element("bdi", name));
    row.append(head, element("td", percent(pseudo)), element("td", percent(predicted)));
    return row;
  });
  $("likely").tBodies[0].replaceChildren(...rows);
}
