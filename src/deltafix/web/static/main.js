// The page: what is shown is asked for when it is needed; epochs come by themselves.

import { ask, edit, listen } from "./api.js";
import { Banner } from "./banner.js";
import { byId, element, keepFocus } from "./dom.js";
import { Graph } from "./graph.js";
import { Profile } from "./profile.js";
import { drawCause, drawWhy } from "./proof.js";
import { Question } from "./question.js";
import { Rows } from "./rows.js";

const KEPT = 40; // epochs in the list of changes
const page = { state: null, relation: null, tab: "rows", lit: new Set(), turn: 0 };

async function answered(work) {
  let drawn;
  try {
    drawn = await work();
  } catch (error) {
    drawn = element("p", { class: "error", role: "alert" }, error.message);
  }
  byId("proof").replaceChildren(drawn);
  byId("proof").scrollIntoView({ block: "nearest" }); // on a narrow screen it is below
}

const explain = (fact) => answered(async () => drawWhy(await ask("why", { fact })));
const trace = (fact) => answered(async () => drawCause(await ask("cause", { fact })));
const question = new Question(byId("ask"), (asked) => answered(async () => drawWhy(await ask("why", asked))));

function drawRelations() {
  byId("title").textContent = page.state.title;
  document.title = `${page.state.title}, deltafix`;
  byId("epoch").textContent = `epoch ${page.state.epoch}`;
  byId("edit").hidden = !page.state.writable;
  // SQL says itself whether it inserts or deletes.
  const isSql = page.state.language === "sql";
  byId("facts-label").textContent = isSql ? "Statements" : "Facts";
  byId("facts").placeholder = isSql ? "INSERT INTO edge VALUES (1, 2)" : 'edge("a", "b")';
  byId("insert").textContent = isSql ? "run" : "insert";
  byId("insert").value = isSql ? "sql" : "+";
  byId("delete").hidden = isSql;
  byId("tab-graph").hidden = isSql; // graphs are drawn of rules
  byId("relation-list").replaceChildren(...page.state.relations.map((one) => element("li", {
    class: one.name in page.state.changed ? "changed" : "",
  }, element("button", {
    "aria-current": String(one.name === page.relation), "data-relation": one.name,
    title: one.columns.join(", "), onclick: () => { page.relation = one.name; refresh(); },
  }, element("span", {}, one.name), element("span", { class: "size" }, one.size.toLocaleString("en"))))));
}

class Plan {
  constructor(place) { this.place = place; }

  async draw(_, isWanted) {
    const { program, text } = await ask("plan");
    if (isWanted()) this.place.replaceChildren(element("pre", {}, program ? `${program}\n` : "", text));
  }
}

const tabs = {
  rows: new Rows(byId("rows"), explain, () => refresh()),
  graph: new Graph(byId("graph"), explain, () => refresh()),
  profile: new Profile(byId("profile")),
  plan: new Plan(byId("plan")),
};

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
  keepFocus(drawRelations);
  for (const tab of Object.keys(tabs)) byId(tab).hidden = tab !== page.tab;
  for (const button of byId("tabs").children) {
    button.setAttribute("aria-selected", String(button.dataset.tab === page.tab));
    button.tabIndex = button.dataset.tab === page.tab ? 0 : -1;
  }
  const one = state.relations.find((found) => found.name === page.relation);
  if (one === undefined) return;
  question.draw(one, state.language === "sql");
  await tabs[page.tab].draw(one, isWanted, page.lit);
}

function addEpoch(epoch) {
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
  addChanges(...lines);
}

// Only the last epoch can be traced, so earlier changes are text.
function addChanges(...lines) {
  const list = byId("changes");
  for (const button of list.querySelectorAll("button")) button.disabled = true;
  list.querySelector("#unchanged")?.remove();
  list.prepend(...lines);
  while (list.children.length > KEPT * 20) list.lastChild.remove();
}

byId("tabs").addEventListener("click", (event) => {
  const tab = event.target.dataset.tab;
  if (tab) { page.tab = tab; refresh(); }
});

byId("tabs").addEventListener("keydown", (event) => {
  const buttons = [...byId("tabs").children].filter((one) => !one.hidden), at = buttons.indexOf(event.target);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const button = buttons.at(to % buttons.length);
  button.focus();
  button.click();
});

byId("edit").addEventListener("submit", async (event) => {
  event.preventDefault();
  let refused = "";
  try {
    await edit(event.submitter.value, byId("facts").value);
    byId("facts").value = "";
  } catch (error) {
    refused = error.message;
  }
  byId("refused").textContent = refused;
});

// What is shown is asked for anew once the page is connected again; epochs that it missed are told then.
const banner = new Banner(byId("problems"), byId("notice"), byId("problem-count"), () => byId(`tab-${page.tab}`));
const status = (text) => { byId("status").textContent = text; };
listen({
  onEpoch: (epoch) => { addEpoch(epoch); refresh(); },
  onLive: () => { status("live"); refresh(); },
  onGone: () => addChanges(element("li", { class: "hint" }, "some changes are not kept: they were too many")),
  // An edit of the program may leave every row as it is, and change relations and plan.
  onFiles: (told) => { if (banner.show(told)) refresh(); },
  onLost: () => status("not connected"),
});
