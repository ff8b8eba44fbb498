// How many of the classes are in the picture?

import { $, ask, element, page, showKnown } from "/page.js";

export function start() {
  fillNumbers();
  $("more").onsubmit = (event) => {
    event.preventDefault();
    give($("many").valueAsNumber);
    $("many").value = "";
    $("question").focus();
  };
}

export const keys = {
  "+": () => $("many").focus(),
  ...Object.fromEntries(
    Array.from({ length: 10 }, (_, number) => [number, () => number <= page.state.classes.length && give(number)]),
  ),
};

export const skip = () => give("skip");

function give(count) {
  const { image, order } = page.upcoming[0] ?? {};
  const field = count === "skip" ? "skipped" : "counted";
  page.answer({ answer: count, order }, `${image}: ${count === "skip" ? field : count}`, { [field]: 1 });
}

export const subject = (question) => question.image;

export function show(question) {
  ask(`How many of these ${page.state.classes.length} classes are in this picture?`);
  $("why").textContent = "Each class counts once, however often it is there. Drawn at random.";
  showKnown(question.known);
}

function fillNumbers() {
  const most = page.state.classes.length;
  const numbers = Array.from({ length: Math.min(most, 9) + 1 }, (_, number) => {
    const button = element("button", number);
    button.type = "button";
    button.addEventListener("click", () => give(number));
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
