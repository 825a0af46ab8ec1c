// A relation of two columns as a graph, drawn by Cytoscape.js: a node and what is around it, or the
// first edges. What is drawn stays where it is while epochs come; the same edges stand below as a list.

import { ask } from "./api.js";
import { element, keepFocus } from "./dom.js";

const LISTED = 200; // edges in the list
const LARGEST = 1.6;
const LAYOUTS = {
  springs: (cy) => ({ name: "preset", positions: springs(cy) }),
  layers: () => ({ name: "breadthfirst", directed: true }),
  circles: () => ({ name: "concentric", minNodeSpacing: 12 }),
  grid: () => ({ name: "grid" }),
};

// Forces by d3-force, which takes nodes that are far away together: 2,000 nodes settle in two seconds.
// The same answer gives the same picture.
function springs(cy) {
  const nodes = cy.nodes().map((node) => ({ id: node.id() }));
  const links = cy.edges().map((edge) => ({ source: edge.source().id(), target: edge.target().id() }));
  d3.forceSimulation(nodes).stop()
    .force("link", d3.forceLink(links).id((node) => node.id).distance(60))
    .force("charge", d3.forceManyBody().strength(-160))
    .force("x", d3.forceX().strength(0.06)).force("y", d3.forceY().strength(0.06))
    .tick(nodes.length > 500 ? 150 : 300);
  return Object.fromEntries(nodes.map((node) => [node.id, { x: node.x, y: node.y }]));
}

const bare = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export class Graph {
  #place; #explain; #refresh; #relation = null; #cy = null; #drawn = "";
  #note; #error; #canvas; #list; #focus; #depth; #layout; #node = null; #graph = null;

  constructor(place, explain, refresh) {
    this.#place = place; this.#explain = explain; this.#refresh = refresh;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#cy?.style(this.#style()));
  }

  async draw(one, isWanted, lit) {
    if (one.name !== this.#relation) {
      this.#relation = one.name;
      this.#begin(one);
    }
    if (!one.is_graph) return;
    let graph = null, problem = "";
    try {
      graph = await ask("graph", { relation: one.name, focus: this.#focus.value, depth: this.#depth.value });
    } catch (error) { problem = error.message; }
    if (!isWanted()) return;
    this.#error.textContent = problem;
    if (graph) this.#show(graph, lit);
  }

  #begin(one) {
    this.#cy?.destroy();
    this.#cy = null; this.#node = null; this.#drawn = "";
    if (!one.is_graph) {
      this.#place.replaceChildren(element("p", { class: "hint" }, `${one.name} is no graph: only a relation of rules with two columns is.`));
      return;
    }
    const option = (value, text) => element("option", { value }, text ?? value);
    const button = (text, name, act) => element("button", { type: "button", "aria-label": name, title: name, onclick: act }, text);
    this.#note = element("span", { class: "hint", role: "status" });
    this.#error = element("p", { class: "error", role: "alert" });
    this.#focus = element("input", { type: "search", id: "focus", autocomplete: "off", placeholder: "a name, or a part of it" });
    this.#focus.addEventListener("search", () => this.#refresh()); // cleared by its cross
    this.#depth = element("select", { id: "depth", onchange: () => this.#refresh() }, ...[1, 2, 3, 4, 5, 6].map((n) => option(n)));
    this.#layout = element("select", { id: "layout", onchange: () => this.#arrange() }, ...Object.keys(LAYOUTS).map((name) => option(name)));
    this.#canvas = element("div", { id: "canvas", role: "application", tabindex: 0, "aria-label": `${one.name} drawn; plus, minus and 0 zoom; its edges are listed below`, onkeydown: (event) => this.#key(event) });
    this.#list = element("div", { id: "edges" });
    this.#place.replaceChildren(
      element("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); this.#refresh(); } },
        element("label", {}, "Around ", this.#focus), element("label", {}, "depth ", this.#depth),
        element("button", {}, "show"), element("label", {}, "layout ", this.#layout),
        element("span", {}, button("+", "zoom in", () => this.#zoom(1.4)), button("−", "zoom out", () => this.#zoom(1 / 1.4)),
          button("fit", "fit", () => this.#cy?.fit(undefined, 30)))),
      this.#canvas, this.#note, this.#error, this.#list); // what grows stands below: Cytoscape remembers its place
    this.#cy = cytoscape({ container: this.#canvas, style: this.#style(), minZoom: 0.02, maxZoom: 6,
      textureOnViewport: true, hideEdgesOnViewport: false });
    this.#cy.on("tap", "edge", (event) => this.#explain(event.target.data("fact")));
    this.#cy.on("tap", "node", (event) => this.#choose(event.target.id()));
    this.#cy.on("dbltap", "node", (event) => this.#around(event.target.data("label")));
  }

  #around(label) { this.#focus.value = label; this.#refresh(); }

  #key(event) {
    const by = { "+": () => this.#zoom(1.4), "=": () => this.#zoom(1.4), "-": () => this.#zoom(1 / 1.4), 0: () => this.#cy.fit(undefined, 30),
      ArrowLeft: () => this.#cy.panBy({ x: 60, y: 0 }), ArrowRight: () => this.#cy.panBy({ x: -60, y: 0 }),
      ArrowUp: () => this.#cy.panBy({ x: 0, y: 60 }), ArrowDown: () => this.#cy.panBy({ x: 0, y: -60 }) }[event.key];
    if (by) { event.preventDefault(); by(); }
  }

  #zoom(by) {
    const box = this.#canvas.getBoundingClientRect();
    this.#cy?.zoom({ level: this.#cy.zoom() * by, renderedPosition: { x: box.width / 2, y: box.height / 2 } });
  }

  #arrange() {
    this.#cy.resize();
    this.#cy.layout({ ...LAYOUTS[this.#layout.value](this.#cy), animate: false, fit: true, padding: 30 }).run();
    if (this.#cy.zoom() > LARGEST) { this.#cy.zoom(LARGEST); this.#cy.center(); } // few nodes are not drawn huge
  }

  #show(graph, lit) {
    this.#graph = graph;
    const cy = this.#cy, id = (place) => `n${graph.nodes[place].key}`;
    const focus = new Set(graph.focus);
    const nodes = graph.nodes.map((node, place) => ({ data: { id: id(place), label: node.label }, classes: focus.has(place) ? "focus" : "" }));
    const edges = graph.edges.map((edge, place) => ({ data: { id: `e${place}`, source: id(edge.from), target: id(edge.to), fact: edge.fact }, classes: lit.has(edge.fact) ? "lit" : "" }));
    const kept = new Map(cy.nodes().map((node) => [node.id(), node.position()]));
    for (const node of nodes) if (kept.has(node.data.id)) node.position = { ...kept.get(node.data.id) };
    cy.batch(() => { cy.elements().remove(); cy.add([...nodes, ...edges]); });
    const drawn = nodes.map((node) => node.data.id).sort().join();
    if (drawn !== this.#drawn) this.#arrange();
    this.#drawn = drawn;
    const around = focus.size ? ` around ${bare(focus.size, "node")}` : "";
    this.#note.textContent = `${bare(nodes.length, "node")}, ${bare(edges.length, "edge")}${around}${graph.is_whole ? "" : `: a part of ${bare(graph.size, "edge")}; name a node to see what is around it`}`;
    this.#choose(nodes.some((node) => node.data.id === this.#node) ? this.#node : (focus.size === 1 ? id(graph.focus[0]) : null));
  }

  // A node's edges, or all, as a list: for the keyboard, for screen readers, and where edges lie close.
  #choose(chosen) {
    this.#node = chosen;
    this.#cy.nodes().removeClass("chosen");
    const node = chosen === null ? null : this.#cy.getElementById(chosen).addClass("chosen");
    const place = node && this.#graph.nodes.findIndex((one) => `n${one.key}` === chosen);
    const edges = this.#graph.edges.filter((edge) => place === null || edge.from === place || edge.to === place);
    const to = (edge) => this.#graph.nodes[edge.from === place ? edge.to : edge.from].label;
    keepFocus(() => this.#list.replaceChildren(
      element("h2", {}, node ? `Edges of ${node.data("label")}` : "Edges"),
      ...(node ? [element("p", {}, element("button", { class: "act", onclick: () => this.#around(node.data("label")) }, "show what is around it"), " ",
        element("button", { class: "act", onclick: () => this.#choose(null) }, "all edges"))] : []),
      element("ul", {}, ...edges.slice(0, LISTED).map((edge) => element("li", {},
        element("button", { "data-fact": edge.fact, onclick: () => this.#explain(edge.fact) }, edge.fact),
        ...(node ? [" ", element("button", { class: "act", "aria-label": `go to ${to(edge)}`, onclick: () => this.#around(to(edge)) }, `→ ${to(edge)}`)] : [])))),
      ...(edges.length > LISTED ? [element("p", { class: "hint" }, `and ${bare(edges.length - LISTED, "more edge")}`)] : [])));
  }

  #style() { // a canvas knows no style sheet: colours are read from elements that have them
    const colour = (name) => {
      const probe = document.body.appendChild(element("span", { class: name }));
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found;
    };
    const [text, line, link, come, chosen] = ["plain", "line", "link", "come", "go"].map(colour);
    return [
      { selector: "node", style: { label: "data(label)", width: 14, height: 14, "background-color": link, color: text, "font-family": "ui-monospace, monospace", "font-size": 12, "text-valign": "bottom", "text-margin-y": 3, "min-zoomed-font-size": 8 } },
      { selector: "edge", style: { width: 1.4, "curve-style": "straight", "line-color": line, "target-arrow-color": line, "target-arrow-shape": "triangle", "arrow-scale": 0.8 } },
      { selector: "edge:loop", style: { "curve-style": "bezier" } },
      { selector: "node.focus", style: { width: 22, height: 22, "font-weight": "bold" } },
      { selector: "node.chosen", style: { "border-width": 3, "border-color": chosen } },
      { selector: "edge.lit", style: { width: 3, "line-color": come, "target-arrow-color": come } },
    ];
  }
}
