// A proof as a tree that opens and closes: the fact, its rule, and what it follows from; a step that
// several others need stands once. Why a row is not there is a tree of rules and of what fails in them.

import { element } from "./dom.js";

const OPEN = 6; // levels that are open at once

function branch(head, children, depth) {
  return element("details", { open: depth < OPEN }, element("summary", {}, head), element("ul", {}, ...children));
}

function step(proof, place, marks, seen, depth) {
  const one = proof.steps[place];
  const mark = marks ? marks[place].trim() : "";
  const kind = mark === "+" ? "come" : mark === "-" ? "go" : "";
  const fact = element("span", { class: kind }, `${mark}${one.fact}`);
  if (one.given) return element("li", {}, fact, " ", element("span", { class: "given" }, "given"));
  if (seen.has(place)) return element("li", {}, fact, " ", element("span", { class: "rule" }, "as above"));
  seen.add(place);
  const notes = [...(one.absent ?? []), ...(one.tests ?? [])];
  return element("li", {}, branch(fact, [
    ...(one.text ? [element("li", { class: "rule" }, one.text)] : []), // SQL names no rule
    ...one.premises.map((premise) => step(proof, premise, marks, seen, depth + 1)),
    ...notes.map((note) => element("li", { class: "rule" }, note)),
  ], depth));
}

function drawProof(proof, marks) {
  return element("ul", { class: "proof" }, step(proof, 0, marks, new Set(), 0));
}

function absent(answer, depth = 0) {
  const tried = answer.attempts.map((one) => element("li", {}, branch(element("span", { class: "rule" }, one.text), [
    ...one.held.map((literal) => element("li", { class: "come" }, `holds ${literal}`)),
    ...(one.derives ? [] : [element("li", { class: "go" }, `fails ${one.failed || "the rule's head, which cannot be this row"}`)]),
    ...(one.below ? [element("li", {}, branch(`why not ${one.below.fact}`, absent(one.below, depth + 2), depth + 1))] : []),
  ], depth)));
  if (answer.given) tried.unshift(element("li", {}, "it is given"));
  if (!tried.length) tried.push(element("li", {}, "no rule derives it, and it is not given"));
  if (answer.rivals) tried.push(element("li", {}, `its relation keeps ${answer.rivals.join(", ")} instead`));
  return tried;
}

export function drawWhy(answer) {
  if (answer.holds) return drawProof(answer);
  if (!answer.attempts) return element("pre", {}, answer.text); // SQL says it in lines
  return element("div", {},
    element("p", {}, `${answer.fact} does not hold`),
    element("ul", { class: "proof" }, ...absent(answer)),
    ...(answer.suggestions.length ? [element("p", { class: "hint" }, "it would hold with"),
      element("ul", { class: "suggestions" }, ...answer.suggestions.map((edits) => element("li", {}, edits.join("  "))))] : []));
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
