// A binary relation as a graph: springs along edges, repulsion between nodes, a circle to begin
// with, so that the same rows always give the same picture. Bounded by the server's answer.

import { drawn } from "./dom.js";

const ROUNDS = 180;
const SIZE = 1000;

function layout(names, edges) {
  const at = new Map(names.map((name, number) => {
    const angle = (2 * Math.PI * number) / names.length;
    return [name, { x: Math.cos(angle), y: Math.sin(angle), dx: 0, dy: 0 }];
  }));
  const nodes = [...at.values()];
  const ideal = 2 / Math.sqrt(Math.max(1, nodes.length));
  for (let round = 0; round < ROUNDS; round++) {
    const step = 0.12 * (1 - round / ROUNDS) + 0.002;
    for (const node of nodes) { node.dx = -0.3 * node.x; node.dy = -0.3 * node.y; }
    for (let i = 0; i < nodes.length; i++) {
      for (let j = 0; j < i; j++) push(nodes[i], nodes[j], (d) => (ideal * ideal) / d);
    }
    for (const edge of edges) {
      if (edge.from !== edge.to) push(at.get(edge.from), at.get(edge.to), (d) => (-d * d) / ideal);
    }
    for (const node of nodes) {
      const length = Math.hypot(node.dx, node.dy) || 1;
      node.x += (node.dx / length) * Math.min(length, step);
      node.y += (node.dy / length) * Math.min(length, step);
    }
  }
  return at;
}

function push(one, other, force) {
  const x = one.x - other.x, y = one.y - other.y;
  const distance = Math.max(0.01, Math.hypot(x, y));
  const f = force(distance) / distance;
  one.dx += x * f; one.dy += y * f;
  other.dx -= x * f; other.dy -= y * f;
}

function scaled(at) {
  const all = [...at.values()];
  const [left, right] = [Math.min(...all.map((n) => n.x)), Math.max(...all.map((n) => n.x))];
  const [top, bottom] = [Math.min(...all.map((n) => n.y)), Math.max(...all.map((n) => n.y))];
  const unit = (SIZE - 120) / Math.max(right - left, bottom - top, 0.01);
  return new Map([...at].map(([name, n]) => [name, { x: 40 + (n.x - left) * unit, y: 40 + (n.y - top) * unit }]));
}

export function drawGraph(graph, lit, onEdge) {
  const spots = scaled(layout(graph.nodes, graph.edges));
  const svg = drawn("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": "graph" });
  svg.append(drawn("defs", {}, drawn("marker",
    { id: "arrow", viewBox: "0 0 8 8", refX: 17, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    drawn("path", { d: "M0 0 L8 4 L0 8 z", fill: "currentcolor", "fill-opacity": 0.5 }))));
  for (const edge of graph.edges) {
    const from = spots.get(edge.from), to = spots.get(edge.to);
    const ends = { x1: from.x, y1: from.y, x2: to.x, y2: to.y, onclick: () => onEdge(edge.fact) };
    svg.append(
      drawn("line", { ...ends, class: lit.has(edge.fact) ? "lit" : "", "marker-end": "url(#arrow)" }),
      drawn("line", { ...ends, class: "wide", "data-fact": edge.fact }, drawn("title", {}, edge.fact)),
    );
  }
  for (const [name, spot] of spots) {
    svg.append(
      drawn("circle", { cx: spot.x, cy: spot.y, r: 9 }),
      drawn("text", { x: spot.x + 14, y: spot.y + 6 }, name.replace(/^"|"$/g, "")),
    );
  }
  return svg;
}
