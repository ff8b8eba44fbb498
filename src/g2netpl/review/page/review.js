// The review page: fetches questions, shows photos, saves answers. labels.js or photos.js shows the question.

import { $, ask, page } from "/page.js";
import * as labels from "/labels.js";
import * as photos from "/photos.js";

const KINDS = { labels, photos };
const AHEAD = 6; // questions to hold
const COUNT = 12; // questions to fetch at a time
const RETRY = 1000; // milliseconds between tries while the server is away

const buttons = () => $("answers").querySelectorAll("button:not(#undo)");
const key = (question) => `${question.row} ${question.column ?? ""}`;

class BadToken extends Error {}
class Rejected extends Error {}

async function call(path, body) {
  const headers = { "X-G2netpl-Token": page.token };
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

function takeToken() {
  const given = location.hash.slice(1);
  if (/^[A-Za-z0-9_-]{43}$/.test(given)) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  page.token = sessionStorage.getItem("token") ?? "";
}

async function start() {
  takeToken();
  try {
    page.state = await (await call("/api/state")).json();
  } catch (problem) {
    complain(problem);
    if (!(problem instanceof BadToken)) setTimeout(start, RETRY);
    return;
  }
  page.unsent = stored("unsent");
  page.given = stored("given");
  page.undoing = page.unsent.filter(isUndo).length;
  for (const { body } of page.unsent) if ("row" in body) page.answered.add(key(body));
  complain(null);
  for (const each of document.querySelectorAll("[data-ask]")) each.hidden = !each.dataset.ask.split(" ").includes(page.state.asks);
  fillFilters();
  kind().start();
  keys = { ...KEYS, ...kind().keys };
  showProgress(page.state.progress);
  document.title = `${page.state.run} · g2netpl review`;
  $("run").textContent = page.state.run;
  send();
  await changeFilter();
}

const kind = () => KINDS[page.state.asks];
const stored = (name) => JSON.parse(sessionStorage.getItem(`${name} ${page.state.key}`) ?? "[]");
const store = (name) => sessionStorage.setItem(`${name} ${page.state.key}`, JSON.stringify(page[name]));
const isUndo = ({ path }) => path === "/api/undo";

function fillFilters() {
  const kept = JSON.parse(sessionStorage.getItem(`filter ${page.state.key}`) ?? "{}");
  const orders = page.state.orders.map(
    ({ name, summary }) => new Option(`${name}: ${summary}`, name),
  );
  $("order").replaceChildren(...orders);
  $("order").value = kept.order ?? page.state.order;
  if (!$("order").value) $("order").value = page.state.order;
  const classes = page.state.classes.map(
    ({ column, name, known }) => new Option(`${name} (${known} known)`, column),
  );
  $("class").replaceChildren(new Option(`all ${classes.length} classes`, ""), ...classes);
  $("class").value = kept.class ?? "";
  if ($("class").selectedIndex < 0) $("class").value = "";
  $("search").value = kept.search ?? "";
}

async function changeFilter() {
  const chosen = { order: $("order").value, class: $("class").value, search: $("search").value };
  sessionStorage.setItem(`filter ${page.state.key}`, JSON.stringify(chosen));
  page.filter += 1;
  page.upcoming = [];
  page.fetching = null;
  wait();
  await refill();
}

// Questions

function refill() {
  page.fetching ??= fetchMore(page.filter).finally(() => (page.fetching = null));
  return page.fetching;
}

async function fetchMore(filter) {
  const query = new URLSearchParams({ order: $("order").value, count: COUNT });
  if ($("class").value) query.set("class", $("class").value);
  const text = $("search").value.trim();
  if (text) query.set("search", text);
  for (const each of page.confirmed.splice(0)) page.answered.delete(each);
  let found;
  try {
    found = await (await call(`/api/questions?${query}`)).json();
  } catch (problem) {
    complain(problem);
    if (problem instanceof TypeError) setTimeout(() => filter === page.filter && refill(), RETRY);
    return;
  }
  if (filter !== page.filter) return;
  const before = page.upcoming.length;
  const here = new Set(page.upcoming.map(key));
  for (const question of found.questions) {
    if (!page.answered.has(key(question)) && !here.has(key(question))) page.upcoming.push(question);
  }
  if (!page.unsent.length) showProgress(found.progress);
  if (before === 0) {
    if (page.upcoming.length === 0 && found.questions.length > 0) {
      setTimeout(() => filter === page.filter && refill(), 100); // they have been answered meanwhile
    } else {
      show();
    }
  }
  for (const question of page.upcoming.slice(1, 4)) picture(question.row, 1024).catch(() => {});
}

function show() {
  const question = page.upcoming[0];
  $("main").setAttribute("aria-busy", "false");
  for (const each of buttons()) each.disabled = !question;
  $("details").hidden = $("why").hidden = !question;
  if (!question) {
    const { limit, answered } = page.state.progress;
    const done = limit !== null && answered >= limit;
    const filtered = $("class").value || $("search").value.trim();
    ask(done ? "Done: the limit is reached." : filtered ? "No open question matches." : "Done: no open question is left.");
    $("image").textContent = "";
    showPicture(null);
    return;
  }
  $("image").textContent = question.image;
  kind().show(question);
  showPicture(question);
}

function wait() {
  $("main").setAttribute("aria-busy", "true");
  for (const each of buttons()) each.disabled = true;
  showPicture(null);
}

// Pictures

function picture(row, size) {
  const name = `${row} ${size}`;
  let found = page.pictures.get(name);
  if (!found) {
    found = call(`/api/image?row=${row}&size=${size}`)
      .then((response) => response.blob())
      .then((blob) => URL.createObjectURL(blob));
    found.catch(() => page.pictures.delete(name));
  }
  page.pictures.delete(name);
  page.pictures.set(name, found); // the latest used are last
  if (page.pictures.size > 16) {
    const [oldest, dropped] = page.pictures.entries().next().value;
    page.pictures.delete(oldest);
    dropped.then(URL.revokeObjectURL, () => {});
  }
  return found;
}

async function showPicture(question) {
  const image = $("picture");
  image.hidden = true; // never an old photo under a new question
  $("no-picture").hidden = true;
  $("enlarge").disabled = !question;
  if (!question) return;
  const isCurrent = () => page.upcoming[0] === question;
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

// Answers

// `more` completes the body of the request, `summary` is shown once it is saved, `counts` add to the progress.
function answer(more, summary, counts) {
  const question = page.upcoming[0];
  if (!question || page.undoing) return;
  page.upcoming.shift();
  page.answered.add(key(question));
  const id = newId();
  page.given.push(id);
  save("/api/decide", { id, row: question.row, ...more }, summary);
  const progress = { ...page.state.progress };
  for (const [name, number] of Object.entries({ answered: 1, ...counts })) progress[name] += number;
  showProgress(progress);
  if (page.upcoming.length) show();
  else wait();
  if (page.upcoming.length < AHEAD) refill();
  else for (const next of page.upcoming.slice(1, 4)) picture(next.row, 1024).catch(() => {});
}

function undo() {
  const last = page.given.at(-1 - page.undoing);
  if (!last) return;
  page.undoing += 1;
  save("/api/undo", { id: newId(), answer: last }, "");
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function save(path, body, summary) {
  page.unsent.push({ path, body, summary });
  keep();
  send();
}

const forget = (id) => (page.given = page.given.filter((each) => each !== id));

function keep() {
  store("unsent");
  store("given");
}

async function send() {
  if (page.sending) return;
  page.sending = true;
  try {
    while (page.unsent.length) {
      const first = page.unsent[0];
      const result = await (await call(first.path, first.body)).json();
      page.unsent.shift();
      if (isUndo(first)) forget(first.body.answer);
      keep();
      complain(null);
      if (isUndo(first)) undone(result.question);
      else {
        page.confirmed.push(key(first.body));
        $("status").textContent = `Saved. ${first.summary}`;
      }
      if (!page.unsent.length) showProgress(result.progress);
    }
  } catch (problem) {
    const first = page.unsent[0];
    if (problem instanceof Rejected && (isUndo(first) || !problem.again)) {
      page.unsent.shift();
      if (isUndo(first)) page.undoing = Math.max(0, page.undoing - 1);
      else {
        page.answered.delete(key(first.body));
        forget(first.body.id);
      }
      keep();
    }
    complain(problem);
    if (!(problem instanceof BadToken)) setTimeout(send, RETRY);
  } finally {
    page.sending = false;
  }
}

function undone(question) {
  page.undoing = Math.max(0, page.undoing - 1);
  page.answered.delete(key(question));
  page.confirmed = page.confirmed.filter((each) => each !== key(question));
  page.upcoming = [question, ...page.upcoming.filter((each) => key(each) !== key(question))];
  $("status").textContent = `Taken back: ${kind().subject(question)}`;
  show();
}

// Around

function showProgress(progress) {
  page.state.progress = progress;
  const { answered, limit, ...kinds } = progress;
  $("bar").hidden = limit === null;
  $("bar").max = limit ?? 1;
  $("bar").value = Math.min(answered, limit ?? 1);
  const all = limit === null ? `${answered} answered` : `${answered} of ${limit} answered`;
  $("counts").textContent = [all, ...Object.entries(kinds).map(([name, number]) => `${number} ${name}`)].join(" · ");
  $("undo").disabled = !page.given.length;
}

function complain(problem) {
  const waiting = page.unsent.filter(({ path }) => path === "/api/decide").length;
  const kept = !waiting ? "" : ` ${waiting === 1 ? "1 answer is" : `${waiting} answers are`} kept in this tab.` +
    ` To save: restart g2netpl review with --port ${location.port} and open its address in this tab.`;
  let text = "";
  if (problem instanceof BadToken) text = `Open the address that g2netpl review printed.${kept}`;
  else if (problem instanceof Rejected) text = problem.again ? `${problem.message}.${kept}` : problem.message;
  else if (problem) text = `The server does not answer. Is g2netpl review still running?${kept}`;
  $("alert").hidden = !text;
  if ($("alert").textContent !== text) $("alert").textContent = text;
}

const KEYS = {
  s: () => kind().skip(),
  u: () => !$("undo").disabled && undo(), Backspace: () => !$("undo").disabled && undo(),
  z: toggleLarge,
  "?": () => $("help").showModal(),
};
let keys = KEYS; // and those of the kind of question

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !$("shortcuts").checked) return;
  if (event.target.closest("input, select, textarea") || !page.state) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = keys[name];
  if (name === "Enter" && event.target.closest("button, summary")) return; // it presses that one
  if (!act || $("help").open || ($("large").open && name !== "z")) return;
  event.preventDefault();
  act();
});

$("skip").addEventListener("click", () => kind().skip());
$("undo").addEventListener("click", undo);
$("enlarge").addEventListener("click", toggleLarge);
$("show-help").addEventListener("click", () => $("help").showModal());
$("order").addEventListener("change", changeFilter);
$("class").addEventListener("change", changeFilter);
let typing = 0;
$("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(changeFilter, 300);
});
$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  $("question").focus();
});
$("shortcuts").checked = localStorage.getItem("shortcuts") !== "off";
$("shortcuts").addEventListener("change", () => {
  localStorage.setItem("shortcuts", $("shortcuts").checked ? "on" : "off");
});
const roomy = matchMedia("(min-width: 761px)"); // on a phone the filters are folded up
const fold = () => ($("choice").open = roomy.matches);
roomy.addEventListener("change", fold);
fold();
page.answer = answer;
addEventListener("hashchange", start);
start();
