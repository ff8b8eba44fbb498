// Which classes are in the photo? Tags are corrected and saved together.

import { $, ask, element, page, percent, showKnown } from "/page.js";

const KEYED = 9; // tags that a number key toggles
const MOST_FOUND = 6;

export function start() {
  $("rest").hidden = !page.state.can_say_rest;
  $("save").onclick = () => give("save");
  $("rest").onclick = () => give("rest");
  $("find").oninput = showFound;
  $("find").onkeydown = inSearch;
  $("finder").onsubmit = (event) => {
    event.preventDefault();
    $("found").querySelector("button")?.click();
  };
}

export const keys = {
  Enter: () => give("save"),
  0: () => give("rest"), n: () => give("rest"),
  "/": () => $("find").focus(),
  ...Object.fromEntries(Array.from({ length: KEYED }, (_, place) => [place + 1, () => toggle(place)])),
};

export const skip = () => give("skip");

export const subject = (question) => question.image;

export function show(question) {
  ask("What is in this photo?");
  $("why").textContent = "Tags that are off are saved as absent. Classes not shown stay unknown.";
  $("find").value = "";
  showFound();
  showTags();
  scrollTo(0, 0);
  $("panel").scrollTop = 0;
  $("known-title").hidden = $("known").hidden = !question.known.length;
  showKnown(question.known);
}

// Tags

const tags = () => page.upcoming[0]?.tags ?? [];

function showTags() {
  const items = tags().map((tag, place) => {
    const button = element("button", "", "tag");
    button.type = "button";
    button.setAttribute("aria-pressed", tag.on);
    if (place < KEYED) button.setAttribute("aria-keyshortcuts", place + 1);
    const about = tag.known ? "known" : tag.probability === null ? "" : percent(tag.probability);
    const text = element("span", "", "said");
    text.append(element("bdi", tag.name), element("span", about, "soft"));
    button.append(element("span", "", "mark"), text);
    if (place < KEYED) button.append(element("kbd", place + 1));
    button.addEventListener("click", (event) => {
      toggle(place);
      if (event.detail) $("question").focus(); // after a click, Enter saves and does not press the tag again
      else $("tags").children[place]?.firstChild.focus();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  $("tags").replaceChildren(...items);
}

function toggle(place) {
  const tag = tags()[place];
  if (!tag || page.undoing) return;
  turn(tag, !tag.on);
  tags().forEach(({ on }, each) => $("tags").children[each].firstChild.setAttribute("aria-pressed", on));
}

function turn(tag, on) {
  if (on && page.state.single_label) for (const other of tags()) other.on = false;
  tag.on = on;
}

// Only tags that could be seen are saved: if some are out of sight, they are shown first.
function allSeen(question) {
  const last = $("tags").lastElementChild;
  const bar = $("answers"), covers = getComputedStyle(bar).position === "fixed";
  const end = covers ? bar.getBoundingClientRect().top : Math.min(innerHeight, $("panel").getBoundingClientRect().bottom);
  if (question.seen || last.getBoundingClientRect().bottom <= end) return true;
  question.seen = true;
  last.scrollIntoView({ block: "center" });
  $("status").textContent = "There are more tags. Look at them, then save.";
  return false;
}

function give(kind) {
  const question = page.upcoming[0];
  if (!question || page.undoing || (kind === "rest" && !page.state.can_say_rest)) return;
  if (kind !== "skip" && !allSeen(question)) return;
  const [on, off] = [true, false].map((side) => question.tags.filter((tag) => tag.on === side));
  const columns = (found) => found.map(({ column }) => column);
  const summary = on.length ? on.map(({ name }) => name).join(", ") : "none of the tags shown";
  const counts = kind === "skip" ? { skipped: on.length + off.length } : { yes: on.length, no: off.length };
  const words = { save: summary, rest: `${on.length ? summary : "nothing"}, and nothing else`, skip: `${question.image}: skipped` };
  page.answer({ answer: kind, on: columns(on), off: columns(off) }, words[kind], counts);
}

// Other classes

function inSearch(event) {
  if (event.key !== "Escape") return;
  $("find").value = "";
  showFound();
  $("question").focus();
}

function showFound() {
  const folded = $("find").value.trim().normalize("NFC").toLowerCase();
  const there = new Set(tags().map(({ name }) => name));
  const hits = folded ? page.state.classes.filter(({ name }) => name.toLowerCase().includes(folded)) : [];
  const begins = ({ name }) => name.toLowerCase().startsWith(folded);
  hits.sort((a, b) => begins(b) - begins(a) || a.name.length - b.name.length);
  const found = hits.slice(0, MOST_FOUND).map(({ column, name }) => choice(name, () => pick(column, name), there.has(name) ? "shown" : ""));
  $("found").replaceChildren(...(folded && !found.length ? [element("p", "no such class", "soft")] : found));
}

function choice(name, act, about) {
  const button = element("button", "", "choice");
  button.type = "button";
  button.append(element("bdi", name), element("span", about, "soft"));
  button.addEventListener("click", act);
  return button;
}

function pick(column, name) {
  let tag = tags().find((each) => each.column === column);
  if (!tag) page.upcoming[0]?.tags.push((tag = { column, name, known: false, on: false, probability: null }));
  turn(tag, true);
  $("find").value = "";
  showFound();
  showTags();
  $("question").focus();
}
