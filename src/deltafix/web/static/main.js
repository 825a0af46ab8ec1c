// The page: what is shown is asked for when it is needed; epochs come by themselves.

import { ask, edit, listen } from "./api.js";
import { byId, element } from "./dom.js";
import { drawGraph } from "./graph.js";
import { drawCause, drawWhy } from "./proof.js";

const KEPT = 40; // epochs in the list of changes
const page = { state: null, relation: null, tab: "rows", offset: 0, lit: new Set(), turn: 0 };

async function guarded(place, work, isWanted = () => true) {
  let drawn;
  try {
    drawn = [await work()].flat();
  } catch (error) {
    drawn = [element("p", { class: "error" }, error.message)];
  }
  if (isWanted()) place.replaceChildren(...drawn);
}

const explain = (fact) => guarded(byId("proof"), async () => drawWhy(await ask("why", { fact })));
const trace = (fact) => guarded(byId("proof"), async () => drawCause(await ask("cause", { fact })));

function drawRelations() {
  byId("title").textContent = page.state.title;
  byId("epoch").textContent = `epoch ${page.state.epoch}`;
  byId("edit").hidden = !page.state.writable;
  byId("relation-list").replaceChildren(...page.state.relations.map((one) => element("li", {
    class: one.name in page.state.changed ? "changed" : "",
  }, element("button", {
    "aria-current": String(one.name === page.relation), "data-relation": one.name,
    title: one.columns.join(", "), onclick: () => { page.relation = one.name; page.offset = 0; refresh(); },
  }, element("span", {}, one.name), element("span", { class: "size" }, one.size.toLocaleString("en"))))));
}

async function drawRows() {
  const { rows, offset, size } = await ask("rows", { relation: page.relation, offset: page.offset });
  const columns = page.state.relations.find((one) => one.name === page.relation).columns;
  const body = rows.map((row) => element("tr", {
    tabindex: 0, "data-fact": row.fact, onclick: () => explain(row.fact),
    onkeydown: (event) => { if (event.key === "Enter") explain(row.fact); },
  }, ...row.cells.map((cell) => element("td", {}, cell))));
  const turn = (by) => () => { page.offset = Math.max(0, page.offset + by); refresh(); };
  return [
    element("p", { class: "hint" }, size ? `${offset + 1} to ${offset + rows.length} of ${size}` : "no rows"),
    element("table", {},
      element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", {}, c)))),
      element("tbody", {}, ...body)),
    ...(offset > 0 ? [element("button", { onclick: turn(-200) }, "previous")] : []),
    ...(offset + rows.length < size ? [element("button", { onclick: turn(200) }, "next")] : []),
  ];
}

async function drawGraphTab() {
  const one = page.state.relations.find((found) => found.name === page.relation);
  if (!one.is_graph) return element("p", { class: "hint" }, `${one.name} is no graph: it needs two columns of one type.`);
  const graph = await ask("graph", { relation: page.relation });
  const more = graph.is_whole ? "" : " (a part of it)";
  return [element("p", { class: "hint" }, `${graph.nodes.length} nodes, ${graph.edges.length} edges${more}`),
    drawGraph(graph, page.lit, explain)];
}

async function drawProfile() {
  const { epochs, rules } = await ask("profile");
  const figures = ["epoch", "changed", "touched", "derivations", "probed", "retracted", "revived"];
  const head = [...figures, "ms"].map((name) => element("th", {}, name));
  const lines = epochs.toReversed().map((one) => element("tr", {},
    ...figures.map((name) => element("td", {}, one[name].toLocaleString("en"))),
    element("td", {}, (one.seconds * 1000).toFixed(3))));
  const last = epochs.at(-1);
  const perRule = Object.entries(last.rules).sort((a, b) => b[1] - a[1]).map(([number, count]) =>
    element("tr", {}, element("td", {}, count.toLocaleString("en")), element("td", {}, rules[number])));
  return [
    element("h2", {}, `Derivations by rule, epoch ${last.epoch}`), element("table", {}, ...perRule),
    element("h2", {}, "Last epochs"), element("table", {}, element("tr", {}, ...head), ...lines),
  ];
}

async function drawPlan() {
  const { program, text } = await ask("plan");
  return [program ? `${program}\n` : "", text];
}

const tabs = { rows: drawRows, graph: drawGraphTab, profile: drawProfile, plan: drawPlan };

// Only the last refresh draws: an answer that comes late must not replace a newer one, nor what
// someone is about to click. The page is busy until then.
async function refresh() {
  const turn = ++page.turn;
  const isWanted = () => turn === page.turn;
  document.body.setAttribute("aria-busy", "true");
  try {
    const state = await ask("state");
    if (isWanted()) await draw(state, isWanted);
  } finally {
    if (isWanted()) document.body.setAttribute("aria-busy", "false");
  }
}

async function draw(state, isWanted) {
  page.state = state;
  // A changed program may have other relations.
  if (!state.relations.some((one) => one.name === page.relation)) {
    page.relation = state.relations[0]?.name ?? null;
  }
  drawRelations();
  for (const tab of Object.keys(tabs)) byId(tab).hidden = tab !== page.tab;
  for (const button of byId("tabs").children) {
    button.setAttribute("aria-selected", String(button.dataset.tab === page.tab));
  }
  if (page.relation !== null) await guarded(byId(page.tab), tabs[page.tab], isWanted);
}

function addEpoch(epoch) {
  const list = byId("changes");
  page.lit = new Set(Object.values(epoch.changes).flatMap((sides) => sides.added));
  const lines = [element("li", { class: "epoch" }, `epoch ${epoch.epoch}, ${(epoch.work.seconds * 1000).toFixed(2)} ms`)];
  for (const [name, sides] of Object.entries(epoch.changes)) {
    const side = (facts, sign, kind) => facts.map((fact) => element("li", {}, element("button", {
      class: kind, "data-change": `${sign}${fact}`, onclick: () => trace(fact),
    }, `${sign}${fact}`)));
    lines.push(...side(sides.removed, "-", "go"), ...side(sides.added, "+", "come"));
    const hidden = sides.counts[0] + sides.counts[1] - sides.added.length - sides.removed.length;
    if (hidden > 0) lines.push(element("li", { class: "hint" }, `${hidden} more in ${name}`));
  }
  // Only the last epoch can be traced, so earlier changes are text.
  for (const button of list.querySelectorAll("button")) button.disabled = true;
  list.prepend(...lines);
  while (list.children.length > KEPT * 20) list.lastChild.remove();
}

byId("tabs").addEventListener("click", (event) => {
  const tab = event.target.dataset.tab;
  if (tab) { page.tab = tab; refresh(); }
});

byId("edit").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await edit(event.submitter.value, byId("facts").value);
    byId("facts").value = "";
  } catch (error) {
    byId("proof").replaceChildren(element("p", { class: "error" }, error.message));
  }
});

// What was told to nobody while the page was not connected is asked for once it is.
const status = (text) => { byId("status").textContent = text; };
listen((epoch) => { addEpoch(epoch); refresh(); }, () => { status("live"); refresh(); },
  () => status("not connected"));
