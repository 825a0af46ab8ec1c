// A proof as nested lists: the fact, its rule, and what it follows from; shared steps stand once.

import { element } from "./dom.js";

function item(proof, place, marks, seen) {
  const step = proof.steps[place];
  const mark = marks ? marks[place].trim() : "";
  const kind = mark === "+" ? "come" : mark === "-" ? "go" : "";
  const fact = element("span", { class: kind }, `${mark}${step.fact}`);
  if (step.given) return element("li", {}, fact, " ", element("span", { class: "given" }, "given"));
  if (seen.has(place)) return element("li", {}, fact, " ", element("span", { class: "rule" }, "as above"));
  seen.add(place);
  const notes = [...(step.absent ?? []), ...(step.tests ?? [])];
  return element("li", {}, fact, element("div", { class: "rule" }, step.text),
    element("ul", {},
      ...step.premises.map((premise) => item(proof, premise, marks, seen)),
      ...notes.map((note) => element("li", { class: "rule" }, note))));
}

export function drawProof(proof, marks) {
  return element("ul", { class: "proof" }, item(proof, 0, marks, new Set()));
}

export function drawWhy(answer) {
  return answer.holds ? drawProof(answer) : element("pre", {}, answer.text);
}

export function drawCause(answer) {
  const happened = answer.sign > 0 ? "appeared" : "vanished";
  return element("div", {},
    element("p", {}, `${answer.fact} ${happened} because of`),
    element("ul", { class: "causes" }, ...answer.changes.map((change) =>
      element("li", { class: change.replace("rule ", "")[0] === "+" ? "come" : "go" }, change))),
    element("p", { class: "hint" }, answer.sign > 0 ? "its proof" : "the proof it had"),
    drawProof(answer.proof, answer.marks));
}
