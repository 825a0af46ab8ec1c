// The last epochs as a line of bars, one of them with its derivations by rule.

import { ask } from "./api.js";
import { element } from "./dom.js";

const FIGURES = ["changed", "touched", "derivations", "probed", "retracted", "revived"];
const figure = (n) => element("td", { class: "figure" }, n.toLocaleString("en"));
const head = (...names) => element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name))));
const time = (one) => `${(one.seconds * 1000).toFixed(3)} ms`;

export class Profile {
  #place; #chosen = null; // null: the last one

  constructor(place) { this.#place = place; }

  async draw(_, isWanted) {
    const found = await ask("profile");
    if (isWanted()) this.#show(found);
  }

  #show({ epochs, rules }) {
    const one = epochs.find((epoch) => epoch.epoch === this.#chosen) ?? epochs.at(-1);
    const most = Math.max(...epochs.map((epoch) => epoch.seconds), 1e-9);
    const bars = epochs.map((epoch) => {
      const bar = element("button", { "aria-pressed": String(epoch === one), "data-epoch": epoch.epoch,
        "aria-label": `epoch ${epoch.epoch}, ${time(epoch)}`, title: `epoch ${epoch.epoch}, ${time(epoch)}`,
        onclick: () => { this.#chosen = epoch.epoch; this.#show({ epochs, rules }); this.#place.querySelector("[aria-pressed=true]").focus(); } }, element("span"));
      bar.firstChild.style.height = `${Math.max(2, (100 * epoch.seconds) / most)}%`;
      return bar;
    });
    const total = Math.max(Object.values(one.rules).reduce((sum, n) => sum + n, 0), 1);
    const perRule = Object.entries(one.rules).sort((a, b) => b[1] - a[1]).map(([number, count]) => element("tr", {},
      figure(count), element("td", { class: "figure" }, `${((100 * count) / total).toFixed(0)} %`), element("td", {}, rules[number])));
    const lines = epochs.toReversed().map((epoch) => element("tr", {}, figure(epoch.epoch),
      ...FIGURES.map((name) => figure(epoch[name])), element("td", { class: "figure" }, time(epoch))));
    const scroll = (name, ...children) => element("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": name }, element("table", {}, ...children));
    this.#place.replaceChildren(
      element("h2", {}, `Time of the last ${epochs.length} epochs, at most ${(most * 1000).toFixed(3)} ms`),
      element("div", { id: "timeline", role: "group", "aria-label": "epochs by time" }, ...bars),
      element("h2", {}, `Derivations by rule, epoch ${one.epoch}, ${time(one)}`),
      scroll("derivations by rule", head("derivations", "share", "rule"), element("tbody", {}, ...perRule)),
      element("h2", {}, "Last epochs"),
      scroll("last epochs", head("epoch", ...FIGURES, "time"), element("tbody", {}, ...lines)));
  }
}
