// The form that asks about a row which is not in sight: a field for each column of the relation.

import { element } from "./dom.js";

export class Question {
  #form; #ask; #asked = "";

  constructor(form, ask) {
    this.#form = form; this.#ask = ask;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = [...form.querySelectorAll("input")].map((field) => ["value", field.value]);
      this.#ask([["relation", form.dataset.relation], ...values]);
    });
  }

  // What is typed stays while epochs come.
  draw(one, isSql) {
    const asked = [one.name, ...one.columns].join();
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#form.dataset.relation = one.name;
    const any = isSql ? { placeholder: "any" } : {}; // of rules a field without characters is a text
    this.#form.replaceChildren(element("fieldset", {}, element("legend", {}, `Why, or why not, ${one.name}`),
      ...one.columns.map((column) => element("label", {}, element("span", {}, column), element("input", { autocomplete: "off", spellcheck: "false", ...any }))),
      element("button", {}, "ask")));
  }
}
