// The review page. Text from the run is only ever set as text, never as markup.

const $ = (id) => document.getElementById(id);
const YES = 1, NO = 0;
const AHEAD = 6; // questions to have at hand
const COUNT = 12; // questions to ask for at a time
const MOST_ABSENT = 6; // classes known not to be there that are named one by one
const RETRY = 1000; // milliseconds between tries while the server is away

const page = {
  token: "",
  state: null,
  upcoming: [], // the first one is on the screen
  answered: new Set(), // so that none comes twice while it is being saved
  confirmed: [], // of those, what the server will leave out of its next answer by itself
  unsent: [], // answers the server has not confirmed; they outlive a reload
  sending: false,
  undoing: 0,
  filter: 0, // changes with every filter, so that late answers to old ones are dropped
  pictures: new Map(),
};

const counts = () => page.state.asks === "counts"; // how many, and not which
const buttons = () => $("answers").querySelectorAll("button:not(#undo), input");
const key = (question) => `${question.row} ${question.column ?? ""}`;
const percent = (chance) => (chance === null ? "–" : `${Math.round(100 * chance)} %`);

class NotWelcome extends Error {}
class Refused extends Error {}

async function call(path, body) {
  const headers = { "X-G2netpl-Token": page.token };
  const options = { headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (response.status === 401) throw new NotWelcome();
  if (!response.ok) {
    const refusal = new Refused((await response.json()).error);
    refusal.fileIsLost = response.status === 409; // removed or replaced by another program
    refusal.again = refusal.fileIsLost || response.status === 507;
    throw refusal;
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
    if (!(problem instanceof NotWelcome)) setTimeout(start, RETRY);
    return;
  }
  page.unsent = JSON.parse(sessionStorage.getItem(storageKey()) ?? "[]");
  for (const { body } of page.unsent) if ("row" in body) page.answered.add(key(body));
  complain(null);
  for (const each of document.querySelectorAll("[data-ask]")) each.hidden = each.dataset.ask !== page.state.asks;
  if (counts()) fillNumbers();
  else fillFilters();
  showProgress(page.state.progress);
  document.title = `${page.state.run} · g2netpl review`;
  $("run").textContent = page.state.run;
  send();
  await changeFilter();
}

const storageKey = () => `unsent ${page.state.key}`;

function fillFilters() {
  const kept = JSON.parse(sessionStorage.getItem(`filter ${page.state.key}`) ?? "{}");
  const orders = page.state.orders.map(({ name, summary, available }) => {
    const option = new Option(`${name}: ${summary}`, name);
    option.disabled = !available;
    return option;
  });
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

function fillNumbers() {
  const most = page.state.classes.length;
  const numbers = Array.from({ length: Math.min(most, 9) + 1 }, (_, number) => {
    const button = element("button", number);
    button.type = "button";
    button.addEventListener("click", () => answer(number));
    return button;
  });
  $("numbers").replaceChildren(...numbers);
  $("more").hidden = most < 10;
  $("many").max = most;
  $("classes").replaceChildren(...page.state.classes.map(({ name }) => {
    const item = document.createElement("li");
    item.append(element("bdi", name));
    return item;
  }));
}

async function changeFilter() {
  const chosen = { order: $("order").value, class: $("class").value, search: $("search").value };
  if (!counts()) sessionStorage.setItem(`filter ${page.state.key}`, JSON.stringify(chosen));
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
  const query = new URLSearchParams({ order: counts() ? page.state.order : $("order").value, count: COUNT });
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
    ask(done ? "All done: the limit is reached." : filtered ? "Nothing to ask here." : "All done.");
    $("image").textContent = "";
    showPicture(null);
    return;
  }
  $("image").textContent = question.image;
  showKnown(question.known);
  if (counts()) {
    ask(`How many of these ${page.state.classes.length} classes are in this picture?`);
    $("why").textContent = "Each class counts once, however often it is there. Drawn at random.";
  } else {
    ask(...wording(question.class));
    $("why").textContent = reason(question);
    $("class-name").textContent = question.class;
    showSaid(question);
    showGuesses(question.guesses);
  }
  showPicture(question);
}

function wait() {
  $("main").setAttribute("aria-busy", "true");
  for (const each of buttons()) each.disabled = true;
  showPicture(null);
}

function ask(...parts) {
  $("question").replaceChildren(...parts);
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

function element(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

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

function showKnown(known) {
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
  image.hidden = true; // never an old picture under a new question
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
    const why = problem instanceof Refused ? problem.message : "the server does not answer";
    $("no-picture").textContent = `This picture cannot be shown: ${why}.`;
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

function answer(kind) {
  const question = page.upcoming[0];
  if (!question || page.undoing) return;
  page.upcoming.shift();
  page.answered.add(key(question));
  const { row, column, order } = question;
  const field = { yes: "yes", no: "no", skip: "skipped" }[kind] ?? "counted";
  const told = `${subject(question)}: ${field === "counted" ? kind : field}`;
  save("/api/decide", { id: newId(), row, column, answer: kind, order }, told);
  const before = page.state.progress;
  showProgress({ ...before, answered: before.answered + 1, [field]: before[field] + 1 });
  if (page.upcoming.length) show();
  else wait();
  if (page.upcoming.length < AHEAD) refill();
  else for (const next of page.upcoming.slice(1, 4)) picture(next.row, 1024).catch(() => {});
}

const subject = (question) => question.class ?? question.image;

function undo() {
  page.undoing += 1;
  save("/api/undo", { id: newId() }, "");
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function save(path, body, told) {
  page.unsent.push({ path, body, told });
  keep();
  send();
}

const keep = () => sessionStorage.setItem(storageKey(), JSON.stringify(page.unsent));

async function send() {
  if (page.sending) return;
  page.sending = true;
  try {
    while (page.unsent.length) {
      const { path, body, told } = page.unsent[0];
      const result = await (await call(path, body)).json();
      page.unsent.shift();
      keep();
      complain(null);
      if (path === "/api/undo") undone(result.question);
      else {
        page.confirmed.push(key(body));
        $("status").textContent = `Saved. ${told}`;
      }
      if (!page.unsent.length) showProgress(result.progress);
    }
  } catch (problem) {
    const isUndo = page.unsent[0].path === "/api/undo"; // in another file it would take back another answer
    if (problem instanceof Refused && (!problem.again || (problem.fileIsLost && isUndo))) {
      const dropped = page.unsent.shift();
      if (dropped.path === "/api/undo") page.undoing = Math.max(0, page.undoing - 1);
      else page.answered.delete(key(dropped.body));
      keep();
    }
    complain(problem);
    if (!(problem instanceof NotWelcome)) setTimeout(send, RETRY);
  } finally {
    page.sending = false;
  }
}

function undone(question) {
  page.undoing = Math.max(0, page.undoing - 1);
  if (!question) {
    $("status").textContent = "There is nothing to undo.";
    return;
  }
  page.answered.delete(key(question));
  page.confirmed = page.confirmed.filter((each) => each !== key(question));
  page.upcoming = [question, ...page.upcoming.filter((each) => key(each) !== key(question))];
  $("status").textContent = `Taken back: ${subject(question)}`;
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
  $("undo").disabled = answered === 0;
}

function complain(problem) {
  const waiting = page.unsent.filter(({ path }) => path === "/api/decide").length;
  const kept = !waiting ? "" : ` ${waiting === 1 ? "1 answer is" : `${waiting} answers are`} kept in this tab until then.` +
    ` If g2netpl review has to be started again: with --port ${location.port}, and open its address in this tab.`;
  let text = "";
  if (problem instanceof NotWelcome) text = `Please open the address that g2netpl review has printed.${kept}`;
  else if (problem instanceof Refused) text = problem.again ? `${problem.message}.${kept}` : problem.message;
  else if (problem) text = `The server does not answer. Is g2netpl review still running?${kept}`;
  $("alert").hidden = !text;
  if ($("alert").textContent !== text) $("alert").textContent = text;
}

const KEYS_OF = {
  labels: {
    y: () => answer("yes"), ArrowRight: () => answer("yes"),
    n: () => answer("no"), ArrowLeft: () => answer("no"),
    "/": () => {
      $("choice").open = true;
      $("search").focus();
    },
  },
  counts: { "+": () => $("many").focus() },
};
for (let number = 0; number < 10; number += 1) {
  KEYS_OF.counts[number] = () => number <= page.state.classes.length && answer(number);
}
const KEYS = {
  s: () => answer("skip"),
  u: () => !$("undo").disabled && undo(), Backspace: () => !$("undo").disabled && undo(),
  z: toggleLarge,
  "?": () => $("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !$("shortcuts").checked) return;
  if (event.target.closest("input, select, textarea") || !page.state) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = KEYS[name] ?? KEYS_OF[page.state.asks][name];
  if (!act || $("help").open || ($("large").open && name !== "z")) return;
  event.preventDefault();
  act();
});

for (const kind of ["yes", "no", "skip"]) $(kind).addEventListener("click", () => answer(kind));
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
$("more").addEventListener("submit", (event) => {
  event.preventDefault();
  answer($("many").valueAsNumber);
  $("many").value = "";
  $("question").focus();
});
$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  $("question").focus();
});
$("shortcuts").checked = localStorage.getItem("shortcuts") !== "off";
$("shortcuts").addEventListener("change", () => {
  localStorage.setItem("shortcuts", $("shortcuts").checked ? "on" : "off");
});
const roomy = matchMedia("(min-width: 761px)"); // on a phone the choice is folded up
const fold = () => ($("choice").open = roomy.matches);
roomy.addEventListener("change", fold);
fold();
addEventListener("hashchange", start);
start();
