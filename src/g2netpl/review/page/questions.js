// Shows a question: a photo with one tag and yes or no, or a photo with all its likely tags.
// Text from the run is only ever set as text, never as markup.

export const $ = (id) => document.getElementById(id);
export const KEYED = 9; // tags that a number key toggles
const YES = 1, NO = 0, UNKNOWN = -1;
const MOST_FOUND = 6, MOST_ABSENT = 6; // classes found, absent classes named one by one

const percent = (probability) => (probability === null ? "–" : `${Math.round(100 * probability)} %`);

function element(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

export const ask = (...parts) => $("question").replaceChildren(...parts);

export function showLabel({ tags: [tag], order }, classes) {
  ask(...wording(tag.name));
  $("why").textContent = reason(tag, order, classes);
  $("class-name").textContent = tag.name;
  const rows = [...textRow("Label", word(tag.value))];
  if (tag.pseudo !== null) rows.push(...barRow("Pseudo-label", tag.pseudo));
  rows.push(...(tag.predicted === null ? textRow("Prediction", "none") : barRow("Prediction", tag.predicted)));
  $("probabilities").replaceChildren(...rows);
}

function wording(name) {
  const strong = document.createElement("strong");
  strong.append(element("bdi", name));
  const plain = /^[a-z][a-z -]*$/.test(name);
  if (!plain) return ["Is “", strong, "” in this photo?"];
  if (/[^su]s$/.test(name)) return ["Are there ", strong, " in this photo?"];
  const article = /^(a|e(?!u)|i|o(?!ne)|u(?!ni|se|r|k))/.test(name) ? "an" : "a";
  return [`Is there ${article} `, strong, " in this photo?"];
}

function reason({ column, value, pseudo, predicted }, order, classes) {
  const { known } = classes.find((one) => one.column === column);
  const source = pseudo === null ? "prediction" : "pseudo-label";
  const probability = pseudo ?? predicted;
  const rare = `${known || "no"} ${known > 1 ? "photos are" : "photo is"} known to show this class`;
  const isUncertain = probability >= 0.25 && probability <= 0.75;
  if (order === "useful") return isUncertain ? `The ${source} is uncertain, and ${rare}.` : `A rare class: ${rare}.`;
  if (order === "disagreement") return `Pseudo-label and prediction are ${Math.round(100 * Math.abs(probability - predicted))} points apart.`;
  if (order === "doubtful") return `The label file has ${word(value)}; the network disagrees.`;
  return "Chosen at random.";
}

const word = (value) => (value === YES ? "yes" : value === NO ? "no" : "unknown");
const textRow = (name, text) => [element("dt", name), element("dd", text, "text")];

function barRow(name, probability) {
  const track = element("span", "", "track"), value = document.createElement("dd");
  track.append(element("span", ""));
  track.firstChild.style.width = `${100 * probability}%`;
  value.append(track, element("span", percent(probability), "number"));
  return [element("dt", name), value];
}

export function showKnown(known) {
  const shown = known.filter(({ value, answered }) => value === YES || answered);
  const others = known.filter((one) => !shown.includes(one)); // observed as absent
  shown.push(...others.splice(0, others.length > MOST_ABSENT ? 0 : MOST_ABSENT));
  const items = shown.map(({ name, value, answered }) => {
    const item = element("li", "", value === YES ? "yes" : "no");
    item.append(value === YES ? "✓ " : "✗ no ", element("bdi", name), answered ? " (answered here)" : "");
    return item;
  });
  if (others.length) items.push(element("li", `✗ ${others.length} ${shown.length ? "others" : "classes"} absent`, "no"));
  $("known").replaceChildren(...items);
  $("known-title").hidden = $("known").hidden = !known.length;
}

export function showTags(tags, toggle) {
  const items = tags.map((tag, place) => {
    const button = element("button", "", "tag");
    button.type = "button";
    const about = tag.value !== UNKNOWN ? "known" : tag.probability === null ? "" : percent(tag.probability);
    const text = element("span", "", "said");
    text.append(element("bdi", tag.name), element("span", about, "soft"));
    button.append(element("span", "", "mark"), text);
    if (place < KEYED) {
      button.setAttribute("aria-keyshortcuts", place + 1);
      button.append(element("kbd", place + 1));
    }
    button.addEventListener("click", (event) => {
      toggle(place);
      if (event.detail) $("question").focus(); // after a click, Enter saves and does not press the tag again
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  $("tags").replaceChildren(...items);
  markTags(tags);
}

export const markTags = (tags) =>
  tags.forEach(({ on }, place) => $("tags").children[place].firstChild.setAttribute("aria-pressed", on));

// Only tags that could be seen are saved: if some are out of sight, they are shown first.
export function allSeen(question) {
  const last = $("tags").lastElementChild, bar = $("answers");
  const isFixed = getComputedStyle(bar).position === "fixed";
  const end = isFixed ? bar.getBoundingClientRect().top : Math.min(innerHeight, $("panel").getBoundingClientRect().bottom);
  if (question.seen || last.getBoundingClientRect().bottom <= end) return true;
  question.seen = true;
  last.scrollIntoView({ block: "center" });
  $("status").textContent = "There are more tags. Look at them, then save.";
  return false;
}

export function showFound(classes, tags, pick) {
  const folded = $("find").value.trim().normalize("NFC").toLowerCase();
  const there = new Set(tags.map(({ name }) => name));
  const hits = folded ? classes.filter(({ name }) => name.toLowerCase().includes(folded)) : [];
  const begins = ({ name }) => name.toLowerCase().startsWith(folded);
  hits.sort((a, b) => begins(b) - begins(a) || a.name.length - b.name.length);
  const buttons = hits.slice(0, MOST_FOUND).map(({ column, name }) => {
    const button = element("button", "", "choice");
    button.type = "button";
    button.append(element("bdi", name), element("span", there.has(name) ? "shown" : "", "soft"));
    button.addEventListener("click", () => pick(column, name));
    return button;
  });
  $("found").replaceChildren(...(folded && !buttons.length ? [element("p", "no such class", "soft")] : buttons));
}
