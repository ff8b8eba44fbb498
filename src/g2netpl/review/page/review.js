// The review page: fetches questions, shows photos, saves answers. questions.js draws a question.

import { $, KEYED, allSeen, ask, markTags, showFound, showKnown, showLabel, showTags } from "/questions.js";

const AHEAD = 6, COUNT = 12; // questions to hold, and to fetch at a time
const RETRY = 1000; // milliseconds between tries while the server is away
const MOST_UNDONE = 200; // answers of this tab that can be undone

let token = "", state = null;
let upcoming = []; // questions; the first one is on the screen
let answered = new Set(), confirmed = []; // questions being saved, which must not come again, and saved ones
let unsent = []; // requests that the server has not confirmed; they outlive a reload
let given = []; // answers of this tab, with their questions; undo takes back the last one
let sending = false, undoing = 0;
let filter = 0, fetching = null; // counts changes of the filter, so that late replies are dropped
const pictures = new Map();

const isPhotos = () => state.asks === "photos";
const buttons = () => $("answers").querySelectorAll("button:not(#undo)");
const key = ({ row, tags }) => (isPhotos() ? `${row}` : `${row} ${tags[0].column}`);
const isUndo = ({ path }) => path === "/api/undo";
const stored = (name) => JSON.parse(sessionStorage.getItem(`${name} ${state.key}`) ?? "null");
const store = (name, value) => sessionStorage.setItem(`${name} ${state.key}`, JSON.stringify(value));

class BadToken extends Error {}
class Rejected extends Error {}

async function call(path, body) {
  const headers = { "X-G2netpl-Token": token };
  const options = { headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (response.status === 401) throw new BadToken();
  if (!response.ok) {
    const rejection = new Rejected((await response.json()).error);
    rejection.again = response.status === 507; // full disk, or another program replaced the file
    throw rejection;
  }
  return response;
}

// Starting

async function start() {
  const fragment = location.hash.slice(1);
  if (/^[A-Za-z0-9_-]{43}$/.test(fragment)) {
    sessionStorage.setItem("token", fragment);
    history.replaceState(null, "", location.pathname);
  }
  token = sessionStorage.getItem("token") ?? "";
  try {
    state = await (await call("/api/state")).json();
  } catch (problem) {
    complain(problem);
    if (!(problem instanceof BadToken)) setTimeout(start, RETRY);
    return;
  }
  unsent = stored("unsent") ?? [];
  given = stored("given") ?? [];
  undoing = unsent.filter(isUndo).length;
  for (const { question } of unsent) if (question) answered.add(key(question));
  complain(null);
  for (const one of document.querySelectorAll("[data-ask]")) one.hidden = one.dataset.ask !== state.asks;
  fillFilters();
  showProgress(state.progress);
  document.title = `${state.run} · g2netpl review`;
  $("run").textContent = state.run;
  send();
  await changeFilter();
}

function fillFilters() {
  const kept = stored("filter") ?? {};
  $("order").replaceChildren(...state.orders.map(({ name, summary }) => new Option(`${name}: ${summary}`, name)));
  $("order").value = kept.order ?? state.order;
  const classes = state.classes.map(({ column, name, known }) => new Option(`${name} (${known} known)`, column));
  $("class").replaceChildren(new Option(`all ${classes.length} classes`, ""), ...classes);
  $("class").value = kept.class ?? "";
  if ($("class").selectedIndex < 0) $("class").value = "";
}

async function changeFilter() {
  store("filter", { order: $("order").value, class: $("class").value });
  filter += 1;
  upcoming = [];
  fetching = null;
  wait();
  await refill();
}

// Questions

function refill() {
  fetching ??= fetchMore(filter).finally(() => (fetching = null));
  return fetching;
}

async function fetchMore(current) {
  const query = new URLSearchParams({ order: $("order").value, count: COUNT });
  if ($("class").value) query.set("class", $("class").value);
  for (const one of confirmed.splice(0)) answered.delete(one);
  let reply;
  try {
    reply = await (await call(`/api/questions?${query}`)).json();
  } catch (problem) {
    complain(problem);
    if (problem instanceof TypeError) setTimeout(() => current === filter && refill(), RETRY);
    return;
  }
  if (current !== filter) return;
  const isEmpty = !upcoming.length, here = new Set(upcoming.map(key));
  upcoming.push(...reply.questions.filter((question) => !answered.has(key(question)) && !here.has(key(question))));
  if (!unsent.length) showProgress(reply.progress);
  if (isEmpty && !upcoming.length && reply.questions.length) {
    setTimeout(() => current === filter && refill(), 100); // they have been answered meanwhile
  } else if (isEmpty) show();
  fetchPictures();
}

function show() {
  const question = upcoming[0];
  $("main").setAttribute("aria-busy", "false");
  for (const button of buttons()) button.disabled = !question;
  $("details").hidden = $("why").hidden = $("photo").hidden = !question;
  if (!question) {
    const { limit, answered: count } = state.progress;
    const isDone = limit !== null && count >= limit;
    ask(isDone ? "Done: the limit is reached." : $("class").value ? "No open question about this class." : "Done: no open question is left.");
    $("image").textContent = "";
    showPicture(null);
    return;
  }
  $("image").textContent = question.image;
  showKnown(question.known);
  $("photo").hidden = !isPhotos();
  if (isPhotos()) {
    ask("What is in this photo?");
    $("why").textContent = "Tags that are off are saved as absent. Classes not shown stay unknown.";
    $("find").value = "";
    find();
    showTags(question.tags, toggle);
    scrollTo(0, 0);
    $("panel").scrollTop = 0;
  } else showLabel(question, state.classes);
  showPicture(question);
}

function wait() {
  $("main").setAttribute("aria-busy", "true");
  for (const button of buttons()) button.disabled = true;
  showPicture(null);
}

// Pictures

function picture(row, size) {
  const name = `${row} ${size}`;
  let address = pictures.get(name);
  if (!address) {
    address = call(`/api/image?row=${row}&size=${size}`)
      .then((response) => response.blob())
      .then((blob) => URL.createObjectURL(blob));
    address.catch(() => pictures.delete(name));
  }
  pictures.delete(name);
  pictures.set(name, address); // the latest used are last
  if (pictures.size > 16) {
    const [oldest, dropped] = pictures.entries().next().value;
    pictures.delete(oldest);
    dropped.then(URL.revokeObjectURL, () => {});
  }
  return address;
}

function fetchPictures() {
  for (const { row } of upcoming.slice(1, 4)) picture(row, 1024).catch(() => {});
}

async function showPicture(question) {
  const image = $("picture");
  image.hidden = true; // never an old photo under a new question
  $("no-picture").hidden = true;
  $("enlarge").disabled = !question;
  if (!question) return;
  const isCurrent = () => upcoming[0] === question;
  const place = (address) => {
    if (!isCurrent()) return;
    image.src = address;
    image.alt = question.image;
    image.hidden = false;
  };
  const large = picture(question.row, 1024);
  const timer = setTimeout(() => picture(question.row, 256).then((small) => image.hidden && place(small), () => {}), 150);
  try {
    place(await large);
  } catch (problem) {
    if (!isCurrent()) return;
    const why = problem instanceof Rejected ? problem.message : "the server does not answer";
    $("no-picture").textContent = `This photo cannot be shown: ${why}.`;
    $("no-picture").hidden = false;
  } finally {
    clearTimeout(timer);
  }
}

function toggleLarge() {
  const dialog = $("large");
  if (dialog.open) return dialog.close();
  if ($("picture").hidden) return;
  $("large-picture").src = $("picture").src;
  $("large-picture").alt = $("picture").alt;
  dialog.showModal();
}

// Tags of a photo

function toggle(place) {
  const tag = upcoming[0]?.tags[place];
  if (!tag || undoing) return;
  turn(tag, !tag.on);
  markTags(upcoming[0].tags);
}

function turn(tag, on) {
  if (on && state.single_label) for (const other of upcoming[0].tags) other.on = false;
  tag.on = on;
}

const find = () => showFound(state.classes, upcoming[0]?.tags ?? [], pick);

function pick(column, name) {
  const { tags } = upcoming[0] ?? {};
  if (!tags) return;
  let tag = tags.find((one) => one.column === column);
  if (!tag) tags.push((tag = { column, name, value: -1, on: false, probability: null }));
  turn(tag, true);
  leaveSearch();
  showTags(tags, toggle);
}

function leaveSearch() {
  $("find").value = "";
  find();
  $("question").focus();
}

// Answers: yes and no of a label, save and "nothing else" of a photo, skip

function give(kind) {
  const question = upcoming[0];
  if (!question || undoing || (kind === "rest" && !isPhotos())) return;
  const { row, tags, order, image } = question;
  if (isPhotos() && kind !== "skip" && !allSeen(question)) return;
  if (!isPhotos()) tags[0].on = kind === "yes";
  const [on, off] = [true, false].map((side) => tags.filter((tag) => tag.on === side));
  const columns = (side) => side.map(({ column }) => column);
  const names = on.map(({ name }) => name).join(", ");
  const summary = isPhotos()
    ? { save: names || "none of the tags shown", rest: `${names || "nothing"}, and nothing else`, skip: `${image}: skipped` }
    : { yes: `${tags[0].name}: yes`, no: `${tags[0].name}: no`, skip: `${tags[0].name}: skipped` };
  upcoming.shift();
  answered.add(key(question));
  const id = newId(), answer = kind === "yes" || kind === "no" ? "save" : kind;
  given = [...given, { id, question }].slice(-MOST_UNDONE);
  save({ path: "/api/decide", body: { id, row, answer, on: columns(on), off: columns(off), order }, summary: summary[kind], question });
  const counts = kind === "skip" ? { skipped: tags.length } : { yes: on.length, no: off.length };
  const progress = { ...state.progress };
  for (const [name, number] of Object.entries({ answered: 1, ...counts })) progress[name] += number;
  showProgress(progress);
  if (upcoming.length) show();
  else wait();
  if (upcoming.length < AHEAD) refill();
  else fetchPictures();
}

function undo() {
  const last = given.at(-1 - undoing);
  if (!last || $("undo").disabled) return;
  undoing += 1;
  save({ path: "/api/undo", body: { id: newId(), answer: last.id } });
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function save(request) {
  unsent.push(request);
  keep();
  send();
}

function keep() {
  store("unsent", unsent);
  store("given", given);
}

function forget(id) {
  const lost = given.find((one) => one.id === id);
  given = given.filter((one) => one !== lost);
  return lost?.question;
}

async function send() {
  if (sending) return;
  sending = true;
  try {
    while (unsent.length) {
      const [first] = unsent;
      const { progress } = await (await call(first.path, first.body)).json();
      unsent.shift();
      if (isUndo(first)) undone(forget(first.body.answer));
      else {
        confirmed.push(key(first.question));
        $("status").textContent = `Saved. ${first.summary}`;
      }
      keep();
      complain(null);
      if (!unsent.length) showProgress(progress);
    }
  } catch (problem) {
    const [first] = unsent;
    if (problem instanceof Rejected && (isUndo(first) || !problem.again)) {
      unsent.shift();
      if (isUndo(first)) undoing = Math.max(0, undoing - 1);
      else {
        answered.delete(key(first.question));
        forget(first.body.id);
      }
      keep();
    }
    complain(problem);
    if (!(problem instanceof BadToken)) setTimeout(send, RETRY);
  } finally {
    sending = false;
  }
}

function undone(question) {
  undoing = Math.max(0, undoing - 1);
  answered.delete(key(question));
  confirmed = confirmed.filter((one) => one !== key(question));
  upcoming = [question, ...upcoming.filter((one) => key(one) !== key(question))];
  $("status").textContent = `Taken back: ${isPhotos() ? question.image : question.tags[0].name}`;
  show();
}

// Around

function showProgress(progress) {
  state.progress = progress;
  const { answered: count, limit, ...kinds } = progress;
  $("bar").hidden = limit === null;
  $("bar").max = limit ?? 1;
  $("bar").value = Math.min(count, limit ?? 1);
  const all = limit === null ? `${count} answered` : `${count} of ${limit} answered`;
  $("counts").textContent = [all, ...Object.entries(kinds).map(([name, number]) => `${number} ${name}`)].join(" · ");
  $("undo").disabled = !given.length;
}

function complain(problem) {
  const waiting = unsent.filter((request) => !isUndo(request)).length;
  const kept = !waiting ? "" : ` ${waiting === 1 ? "1 answer is" : `${waiting} answers are`} kept in this tab.` +
    ` To save: restart g2netpl review with --port ${location.port} and open its address in this tab.`;
  let text = "";
  if (problem instanceof BadToken) text = `Open the address that g2netpl review printed.${kept}`;
  else if (problem instanceof Rejected) text = problem.again ? `${problem.message}.${kept}` : problem.message;
  else if (problem) text = `The server does not answer. Is g2netpl review still running?${kept}`;
  $("alert").hidden = !text;
  if ($("alert").textContent !== text) $("alert").textContent = text;
}

const giving = (kind) => () => give(kind);
const COMMON = { s: giving("skip"), u: undo, Backspace: undo, z: toggleLarge, "?": () => $("help").showModal() };
const KEYS = {
  labels: { ...COMMON, y: giving("yes"), ArrowRight: giving("yes"), n: giving("no"), ArrowLeft: giving("no") },
  photos: {
    ...COMMON, Enter: giving("save"), 0: giving("rest"), n: giving("rest"), "/": () => $("find").focus(),
    ...Object.fromEntries(Array.from({ length: KEYED }, (_, place) => [place + 1, () => toggle(place)])),
  },
};

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !$("shortcuts").checked) return;
  if (event.target.closest("input, select") || !state) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = KEYS[state.asks][name];
  if (name === "Enter" && event.target.closest("button, summary")) return; // it presses that one
  if (!act || $("help").open || ($("large").open && name !== "z")) return;
  event.preventDefault();
  act();
});

for (const kind of ["yes", "no", "save", "rest", "skip"]) $(kind).addEventListener("click", giving(kind));
$("undo").addEventListener("click", undo);
$("enlarge").addEventListener("click", toggleLarge);
$("show-help").addEventListener("click", () => $("help").showModal());
$("order").addEventListener("change", changeFilter);
$("class").addEventListener("change", changeFilter);
$("find").addEventListener("input", find);
$("find").addEventListener("keydown", (event) => event.key === "Escape" && leaveSearch());
$("finder").addEventListener("submit", (event) => {
  event.preventDefault();
  $("found").querySelector("button")?.click();
});
$("shortcuts").checked = localStorage.getItem("shortcuts") !== "off";
$("shortcuts").addEventListener("change", () => {
  localStorage.setItem("shortcuts", $("shortcuts").checked ? "on" : "off");
});
const roomy = matchMedia("(min-width: 761px)"); // on a phone the filters are folded up
const fold = () => ($("choice").open = roomy.matches);
roomy.addEventListener("change", fold);
fold();
addEventListener("hashchange", start);
start();
