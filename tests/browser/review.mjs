// Drives the review page in a real browser: node review.mjs CHROMIUM
// Every line of the input is a command in JSON, every line of the output what came of it.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
const faults = [];
page.on("pageerror", (problem) => faults.push(problem.message));
page.on("dialog", (dialog) => (faults.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
page.on("request", (request) => {
  const { hostname, protocol } = new URL(request.url());
  if (!["blob:", "data:", "file:"].includes(protocol) && hostname !== "127.0.0.1") faults.push(`request to ${request.url()}`);
});
page.setDefaultTimeout(20000);

const ready = () => page.waitForSelector("#main[aria-busy=false] #picture:not([hidden])");

const steps = {
  async open({ address }) {
    await page.goto(address);
    await ready();
  },
  async read({ address }) {
    await page.goto(address); // a page without photos to wait for
  },
  async follow({ address }) {
    await page.evaluate((to) => location.assign(to), address); // as if pasted into the address bar
    await page.waitForSelector("#alert", { state: "hidden" });
  },
  ready,
  async reload() {
    await page.reload();
    await ready();
  },
  // Answers by keyboard, each only when its picture is there; tells what was on the screen.
  async answer({ keys }) {
    const given = [];
    for (const key of keys) {
      await ready();
      const shown = await page.evaluate(() => [
        document.getElementById("image").textContent,
        document.getElementById("class-name").textContent,
      ]);
      given.push([...shown, key]);
      await page.keyboard.press(key);
    }
    return given;
  },
  async click({ selector }) {
    await page.click(selector);
  },
  async type({ text }) {
    await page.keyboard.type(text);
  },
  async size({ width, height }) {
    await page.setViewportSize({ width, height });
  },
  async press({ key }) {
    await page.keyboard.press(key);
  },
  async settled() {
    await page.waitForFunction(() =>
      Object.keys(sessionStorage)
        .filter((name) => name.startsWith("unsent"))
        .every((name) => sessionStorage.getItem(name) === "[]"),
    );
    await page.waitForFunction(() => document.getElementById("alert").hidden);
    await page.waitForSelector("#main[aria-busy=false]");
  },
  async see() {
    return page.evaluate(() => ({
      question: document.getElementById("question").textContent,
      image: document.getElementById("image").textContent,
      label: document.getElementById("class-name").textContent,
      tags: Object.fromEntries(
        [...document.querySelectorAll(".tag")].map((tag) => [
          tag.querySelector("bdi").textContent,
          tag.getAttribute("aria-pressed") === "true",
        ]),
      ),
      found: [...document.querySelectorAll("#found button")].map((button) => button.textContent),
      counts: document.getElementById("counts").textContent,
      status: document.getElementById("status").textContent,
      alert: document.getElementById("alert").hidden ? "" : document.getElementById("alert").textContent,
      focus: document.activeElement.id,
      address: location.href,
      elements: document.querySelectorAll("script, img, iframe, object").length,
      marked: window.marked ?? null,
    }));
  },
  async lost() {
    await page.waitForSelector("#alert:not([hidden])");
  },
  async choose({ selector, value }) {
    await page.selectOption(selector, value);
    await page.waitForSelector("#main[aria-busy=false]");
  },
  // Goes through the page with Tab alone and tells what gets the focus, and whether one sees it.
  async tabs({ count }) {
    const seen = [];
    for (let step = 0; step < count; step++) {
      await page.keyboard.press("Tab");
      seen.push(
        await page.evaluate(() => {
          const style = getComputedStyle(document.activeElement);
          return [document.activeElement.id, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
        }),
      );
    }
    return seen;
  },
  async axe({ scheme, width, height }) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height });
    const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const session = await context.newCDPSession(page); // past the page's own policy, as a tool may
    await session.send("Page.setBypassCSP", { enabled: true });
    await session.send("Runtime.evaluate", { expression: source });
    const { violations } = await page.evaluate(() => window.axe.run());
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    return {
      faults: violations.map(({ id, impact, nodes }) => [id, impact, nodes[0].html]),
      wide,
    };
  },
  async faults() {
    return faults;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { step, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await steps[step](given)) ?? null };
  } catch (problem) {
    answer = { problem: `${step}: ${problem.message}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
