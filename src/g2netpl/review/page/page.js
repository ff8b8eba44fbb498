// What both kinds of questions share. Text from the run is only ever set as text, never as markup.

export const $ = (id) => document.getElementById(id);
export const YES = 1;
const MOST_ABSENT = 6; // absent classes that are named one by one

export const page = {
  token: "",
  state: null,
  upcoming: [], // the first one is on the screen
  answered: new Set(), // questions that are being saved and must not come again
  confirmed: [], // those that the server will not ask again by itself
  unsent: [], // answers the server has not confirmed; they outlive a reload
  given: [], // ids of the answers of this tab; undo takes back the last one
  sending: false,
  undoing: 0,
  filter: 0, // counts changes, so that late replies to an old filter are dropped
  pictures: new Map(),
  answer: null, // set by review.js: saves the answer to the question on the screen
};

export const percent = (probability) => (probability === null ? "–" : `${Math.round(100 * probability)} %`);

export function element(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

export function ask(...parts) {
  $("question").replaceChildren(...parts);
}

export function showKnown(known) {
  const shown = known.filter(({ value, answered }) => value === YES || answered);
  const others = known.filter((each) => !shown.includes(each)); // observed as absent
  shown.push(...others.splice(0, others.length > MOST_ABSENT ? 0 : MOST_ABSENT));
  const items = shown.map(({ name, value, answered }) => {
    const item = element("li", "", value === YES ? "yes" : "no");
    item.append(value === YES ? "✓ " : "✗ no ", element("bdi", name), answered ? " (answered here)" : "");
    return item;
  });
  if (others.length) items.push(element("li", `✗ ${others.length} ${shown.length ? "others" : "classes"} absent`, "no"));
  if (!known.length) items.push(element("li", "nothing", "none"));
  $("known").replaceChildren(...items);
}
