// What all ways of asking share. Text from the run is only ever set as text, never as markup.

export const $ = (id) => document.getElementById(id);
export const YES = 1;
const MOST_ABSENT = 6; // classes known not to be there that are named one by one

export const page = {
  token: "",
  state: null,
  upcoming: [], // the first one is on the screen
  answered: new Set(), // so that none comes twice while it is being saved
  confirmed: [], // of those, what the server will leave out of its next answer by itself
  unsent: [], // answers the server has not confirmed; they outlive a reload
  given: [], // ids of the answers of this tab; undo takes back the last one
  sending: false,
  undoing: 0,
  filter: 0, // changes with every filter, so that late answers to old ones are dropped
  pictures: new Map(),
  answer: null, // what a way of asking calls with what was said of the question on the screen
};

export const percent = (chance) => (chance === null ? "–" : `${Math.round(100 * chance)} %`);

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
  const shown = known.filter(({ value, decided }) => value === YES || decided);
  const others = known.filter((each) => !shown.includes(each)); // observed not to be there
  shown.push(...others.splice(0, others.length > MOST_ABSENT ? 0 : MOST_ABSENT));
  const items = shown.map(({ name, value, decided }) => {
    const item = element("li", "", value === YES ? "yes" : "no");
    item.append(value === YES ? "✓ " : "✗ no ", element("bdi", name), decided ? " (decided here)" : "");
    return item;
  });
  if (others.length) items.push(element("li", `✗ no to ${others.length} ${shown.length ? "others" : "classes"}`, "no"));
  if (!known.length) items.push(element("li", "nothing", "none"));
  $("known").replaceChildren(...items);
}
