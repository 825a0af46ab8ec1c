"""Differential dataflow, one worker: reachability and closure as its own examples write them."""

from __future__ import annotations

from bench.peers.base import Peer
from bench.peers.rust import RustPeer, reach_or_closure

__all__ = ["make"]

_MANIFEST = '[dependencies]\ndifferential-dataflow = "0.25"\ntimely = "0.31"\n'

_MAIN = """
use std::{cell::RefCell, rc::Rc};
use differential_dataflow::input::Input;
use differential_dataflow::operators::*;
use timely::dataflow::operators::probe::Handle;

fn main() {
    timely::execute_directly(|worker| {
        let start = Instant::now();
        let total = Rc::new(RefCell::new(Sum::default()));
        let mut probe = Handle::new();
        let reach = KIND == "reach";
        let out = if reach { "reach" } else { "path" };
        let (mut edges, mut roots) = worker.dataflow::<u32, _, _>(|scope| {
            let (edge_input, edge) = scope.new_collection::<(i64, i64), isize>();
            let (root_input, root) = scope.new_collection::<i64, isize>();
            let sink = total.clone();
            if reach {
                // reach(y) :- reach(x), edge(x, y).
                root.clone().distinct().iterate(|scope, inner| {
                    let (edge, root) = (edge.enter(scope), root.enter(scope));
                    inner.map(|x| (x, ())).join_map(edge, |_, _, y| *y).concat(root).distinct()
                })
                .inspect(move |(x, _, d)| sink.borrow_mut().add(&[*x], *d as i64))
                .probe_with(&mut probe);
            } else {
                // path(x, z) :- path(x, y), edge(y, z).
                edge.clone().distinct().iterate(|scope, inner| {
                    let first = edge.clone().enter(scope);
                    let edge = edge.enter(scope);
                    inner.map(|(x, y)| (y, x)).join_map(edge, |_, x, z| (*x, *z))
                        .concat(first).distinct()
                })
                .inspect(move |(p, _, d)| sink.borrow_mut().add(&[p.0, p.1], *d as i64))
                .probe_with(&mut probe);
            }
            (edge_input, root_input)
        });
        let given = table("edge", 2);
        let given_roots = if reach { table("root", 1) } else { vec![] };
        let edits = table("edits", WIDTH);
        let clock = Instant::now();
        for r in &given { edges.insert((r[0], r[1])); }
        for r in &given_roots { roots.insert(r[0]); }
        edges.advance_to(1); edges.flush();
        roots.advance_to(1); roots.flush();
        worker.step_while(|| probe.less_than(edges.time()));
        println!("load {}", clock.elapsed().as_secs_f64());
        total.borrow().say(0, out);
        let last = edits.last().map_or(0, |e| e[0]);
        let mut at = 0;
        for epoch in 1..=last {
            if start.elapsed().as_secs_f64() > deadline() { return; }
            let clock = Instant::now();
            while at < edits.len() && edits[at][0] == epoch {
                let e = &edits[at];
                edges.update((e[3], e[4]), e[1] as isize);
                at += 1;
            }
            edges.advance_to(epoch as u32 + 1); edges.flush();
            roots.advance_to(epoch as u32 + 1); roots.flush();
            worker.step_while(|| probe.less_than(edges.time()));
            println!("epoch {} {}", epoch, clock.elapsed().as_secs_f64());
        }
        if last > 0 { total.borrow().say(last, out); }
    });
}
"""


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    files = reach_or_closure(_MAIN)
    name, crate = "differential", "differential-dataflow"
    return RustPeer(name, crate, _MANIFEST, files, kinds=("reach", "tc"))
