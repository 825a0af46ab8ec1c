// What of the files is not taken, each with its error until it is mended, and what an edit of the program
// did. Both can be put away with their button or Escape; what still stands is counted in the header.

import { element } from "./dom.js";

const times = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export class Banner {
  #problems; #notice; #count; #rest; #shown = new Map(); #away = new Set(); #standing = []; #seen;

  // `rest`: what has the focus when nothing of the banner is left to have it.
  constructor(problems, notice, count, rest) {
    this.#problems = problems; this.#notice = notice; this.#count = count; this.#rest = rest;
    count.addEventListener("click", () => {
      this.#away.clear();
      this.#draw();
      problems.querySelector("button")?.focus();
    });
    for (const place of [problems, notice]) {
      place.addEventListener("keydown", (event) => {
        if (event.key === "Escape") event.target.closest(".told")?.querySelector("button").click();
      });
    }
  }

  // Whether the program was edited since it was shown last.
  show({ problems, edit }) {
    this.#standing = problems.map((one) => ({ ...one, id: JSON.stringify(one) }));
    const ids = new Set(this.#standing.map((one) => one.id));
    for (const id of this.#away) if (!ids.has(id)) this.#away.delete(id); // it is told again if it comes back
    this.#draw();
    // What was edited before the page was opened is no news.
    const isNew = this.#seen !== undefined && edit !== null && edit.epoch !== this.#seen;
    if (isNew) this.#tell(edit);
    this.#seen = edit?.epoch ?? -1;
    return isNew;
  }

  // What stands already stays the same element, or it would be read out again.
  #draw() {
    const wanted = this.#standing.filter((one) => !this.#away.has(one.id));
    const before = this.#shown;
    this.#shown = new Map(wanted.map((one) => [one.id, before.get(one.id) ?? this.#problem(one)]));
    for (const [id, node] of before) if (!this.#shown.has(id)) this.#remove(node);
    for (const node of this.#shown.values()) if (!node.isConnected) this.#problems.append(node);
    this.#count.hidden = !this.#standing.length;
    this.#count.textContent = `${times(this.#standing.length, "file")} not taken`;
  }

  #problem({ id, file, path, text, kept }) {
    return element("div", { class: "told problem", "data-file": file, title: path },
      element("p", {}, element("strong", {}, `${file} is not taken`), `: ${kept}. `,
        this.#button(file, () => { this.#away.add(id); this.#draw(); })),
      element("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `what is wrong in ${file}` }, element("pre", {}, text)));
  }

  #tell({ epoch, files, rules, count, changed }) {
    const line = (text, kind) => element("li", { class: kind }, text);
    const rows = Object.entries(changed).map(([name, [came, went]]) => line(`${name}: ${times(came, "row")} came, ${times(went, "row")} went`, "rows"));
    const told = element("div", { class: "told", "data-epoch": epoch },
      element("p", {}, element("strong", {}, `${files.join(", ")} was saved`), `, epoch ${epoch}: ${count ? times(count, "rule") + " changed" : "its rules are the same"}. `,
        this.#button(files.join(", "), () => this.#remove(told))),
      element("ul", {}, ...rules.map((rule) => line(rule, rule.startsWith("rule +") ? "come" : "go")),
        ...(count > rules.length ? [line(`and ${times(count - rules.length, "more rule")}`, "hint")] : []),
        ...(rows.length ? rows : [line("no row changed", "rows")])));
    this.#notice.replaceChildren(told);
  }

  #button(name, act) {
    return element("button", { type: "button", class: "act", "aria-label": `dismiss ${name}`, onclick: act }, "dismiss");
  }

  // The focus goes on to what is told beside it, or else to the count.
  #remove(node) {
    const had = node.contains(document.activeElement);
    node.remove();
    if (!had) return;
    const next = this.#problems.querySelector("button") ?? this.#notice.querySelector("button");
    (next ?? (this.#count.hidden ? this.#rest() : this.#count)).focus();
  }
}
