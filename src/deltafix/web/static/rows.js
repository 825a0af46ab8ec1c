// Rows of a relation: searched, filtered and sorted by the server, page by page after the last row's key.

import { ask, address } from "./api.js";
import { element } from "./dom.js";

const WAIT = 250; // ms after the last key before what is typed is asked for
const FILTER = "contains, or = < <= > >= != and a value";

export class Rows {
  #place; #explain; #refresh; #relation = null; #columns = ""; #timer = 0;
  #note; #error; #head; #body; #back; #on; #files;

  constructor(place, explain, refresh) {
    this.#place = place; this.#explain = explain; this.#refresh = refresh;
  }

  // The fields stay as they are while epochs come; another relation, or other columns, makes them anew.
  async draw(one, isWanted) {
    const columns = one.columns.join(", ");
    if (one.name !== this.#relation || columns !== this.#columns) {
      this.#relation = one.name; this.#columns = columns;
      this.#begin(one);
    }
    let page = null, problem = "";
    try {
      page = await ask("rows", { ...this.#question(), after: this.after.at(-1) });
    } catch (error) { problem = error.message; }
    if (!isWanted()) return;
    this.#error.textContent = problem;
    if (page) this.#show(page);
  }

  #question() {
    const asked = { relation: this.#relation };
    for (const field of this.#place.querySelectorAll("input")) if (field.value) asked[field.name] = field.value;
    return this.sort === null ? asked : { ...asked, sort: this.sort, order: this.order };
  }

  #begin(one) {
    this.after = [""]; this.sort = null; this.order = "ascending";
    const later = () => { clearTimeout(this.#timer); this.#timer = setTimeout(() => this.#anew(), WAIT); };
    const field = (attributes) => element("input", { type: "search", autocomplete: "off", oninput: later, ...attributes });
    this.#note = element("span", { class: "hint", role: "status" });
    this.#error = element("p", { class: "error", role: "alert" });
    this.#back = element("button", { type: "button", onclick: () => { this.after.pop(); this.#refresh(); } }, "previous");
    this.#on = element("button", { type: "button", onclick: () => { this.after.push(this.next); this.#refresh(); } }, "next");
    this.#files = { csv: element("a", { download: "" }, "CSV"), jsonl: element("a", { download: "" }, "JSON lines") };
    this.#head = one.columns.map((column, place) => element("th", { scope: "col" },
      element("button", { type: "button", "data-sort": place, onclick: () => this.#turn(place) }, column)));
    this.#body = element("tbody");
    const filters = one.columns.map((column, place) => element("td", {}, field({
      name: `where${place}`, "aria-label": `filter ${column.split(":")[0]}`, placeholder: "filter", title: FILTER })));
    this.#place.replaceChildren(
      element("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); this.#anew(); } },
        element("label", {}, "Search ", field({ name: "search" })), this.#note, this.#back, this.#on,
        element("span", {}, "export ", this.#files.csv, " ", this.#files.jsonl)),
      this.#error,
      element("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `rows of ${one.name}` },
        element("table", {}, element("thead", {},
          element("tr", {}, element("th", { scope: "col", class: "ask" }, element("span", { class: "heard" }, "explain")), ...this.#head),
          element("tr", { class: "filters" }, element("td"), ...filters)), this.#body)));
  }

  #anew() { clearTimeout(this.#timer); this.after = [""]; this.#refresh(); }

  #turn(place) { // ascending, descending, as they lie
    if (this.sort !== place) { this.sort = place; this.order = "ascending"; }
    else if (this.order === "ascending") this.order = "descending";
    else { this.sort = null; this.order = "ascending"; }
    this.#anew();
  }

  #show(page) {
    const shown = (n) => n.toLocaleString("en");
    const last = page.offset + page.rows.length;
    const all = page.matched === page.size ? "" : `, filtered from ${shown(page.size)}`;
    this.#note.textContent = page.rows.length ? `${shown(page.offset + 1)} to ${shown(last)} of ${shown(page.matched)}${all}` : `no rows${all}`;
    this.next = page.next;
    this.#back.disabled = this.after.length === 1;
    this.#on.disabled = page.next === null;
    for (const [format, link] of Object.entries(this.#files)) link.href = address("export", { ...this.#question(), format });
    this.#head.forEach((head, place) => head.setAttribute("aria-sort", place === this.sort ? this.order : "none"));
    this.#body.replaceChildren(...page.rows.map((row) => element("tr", {
      "data-fact": row.fact, onclick: () => this.#explain(row.fact),
    }, element("td", { class: "ask" }, element("button", { "aria-label": `why ${row.fact}` }, "?")),
    ...row.cells.map((cell) => element("td", {}, cell)))));
  }
}
