// Rows of a relation, in a table by DataTables: the server searches, filters and sorts, and a page goes on
// after the last row's key. What is wanted DataTables asks for; what is answered it draws.

import { ask, address } from "./api.js";
import { element, keepFocus } from "./dom.js";

const PAGE = 200; // rows, as the server gives them
const WAIT = 250; // ms after the last key before what is typed is asked for
const FILTER = "contains, or = < <= > >= != and a value";
DataTable.ext.errMode = "throw"; // its other mode opens a window

export class Rows {
  #place; #explain; #refresh; #shown = ""; #table; #asked; #drawn; #keys; #moved; #files;
  #error = element("p", { class: "error", role: "alert" });

  constructor(place, explain, refresh) {
    this.#place = place; this.#explain = explain; this.#refresh = refresh;
    this.#files = ["csv", "jsonl"].map((format) => element("a", { download: "" }, format));
  }

  // The fields stay as they are while epochs come; another relation, or other columns, makes them anew.
  async draw(one, isWanted) {
    const shown = [one.name, ...one.columns].join();
    if (shown !== this.#shown) { this.#shown = shown; this.#begin(one); }
    const { start, search, order: [order] } = this.#asked, asked = { relation: one.name, search: search.value };
    for (const field of this.#place.querySelectorAll("thead input")) asked[field.name] = field.value;
    if (order) Object.assign(asked, { sort: order.column - 1, order: `${order.dir}ending` });
    let page, problem = "";
    try {
      page = await ask("rows", { ...asked, after: this.#keys[start] ?? "" });
    } catch (error) {
      if (error.code === "DF691" && isWanted()) { this.#table.page("first").draw("page"); return; } // compacted: its keys are other rows'
      problem = error.message;
    }
    if (!isWanted()) return;
    this.#error.textContent = problem;
    if (!page) return;
    if (start && !page.rows.length) { this.#table.page("previous").draw("page"); return; } // its rows are gone
    for (const link of this.#files) link.href = address("export", { ...asked, format: link.text });
    this.#keys[start + PAGE] = page.next;
    this.#moved = start - page.offset; // DataTables counts pages, and what is before a key comes and goes
    keepFocus(() => this.#drawn({ data: page.rows, recordsTotal: page.size + this.#moved, recordsFiltered: page.matched + this.#moved }));
  }

  #begin(one) {
    this.#table?.destroy();
    this.#table = null;
    const later = DataTable.util.debounce(() => this.#table.draw(), WAIT);
    const sorts = one.columns.map((column) => element("button", { type: "button" }, column));
    const filters = one.columns.map((column, place) => element("input", { type: "search", autocomplete: "off", oninput: later,
      name: `where${place}`, "aria-label": `filter ${column.split(":")[0]}`, placeholder: "filter", title: FILTER }));
    const table = element("table", { "aria-label": one.name }, element("thead", {},
      element("tr", {}, ...[element("span", { class: "heard" }, "explain"), ...sorts].map((head) => element("th", { scope: "col" }, head))),
      element("tr", { class: "filters", "data-dt-order": "disable" }, ...["", ...filters].map((filter) => element("td", {}, filter)))));
    this.#place.replaceChildren(this.#error, table);
    this.#table = new DataTable(table, {
      serverSide: true, pageLength: PAGE, pagingType: "simple", searchDelay: WAIT, autoWidth: false,
      order: [], orderMulti: false, ordering: { indicators: false, handler: false }, // the buttons do it
      ajax: (asked, drawn) => {
        if (!asked.start) this.#keys = {};
        this.#asked = asked; this.#drawn = drawn;
        if (this.#table) this.#refresh(); // else it is being made, and drawn after that
      },
      columns: ["", ...one.columns].map(() => ({ data: null, defaultContent: "" })), // what it writes is markup
      createdRow: (line, { fact, cells }, _, [why, ...places]) => {
        line.dataset.fact = fact;
        line.onclick = () => this.#explain(fact);
        why.append(element("button", { "aria-label": `why ${fact}` }, "?"));
        places.forEach((place, at) => place.append(cells[at]));
      },
      infoCallback: (_, ...counts) => {
        const [first, last, size, matched] = counts.map((count) => (count - this.#moved).toLocaleString("en"));
        return (counts[0] > counts[1] ? "no rows" : `${first} to ${last} of ${matched}`) + (matched === size ? "" : `, filtered from ${size}`);
      },
      layout: { topStart: ["search", "info"], topEnd: ["paging", () => element("span", {}, "export ", this.#files[0], " ", this.#files[1])], bottomStart: null, bottomEnd: null },
    });
    sorts.forEach((sort, place) => this.#table.order.listener(sort, place + 1));
    Object.assign(table.parentNode, { className: "scroll", role: "region", tabIndex: 0, ariaLabel: `rows of ${one.name}` });
  }
}
