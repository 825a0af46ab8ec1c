"""DBSP, Feldera's engine, one worker: the same two recursive queries as differential dataflow's."""

from __future__ import annotations

from bench.peers.base import Peer
from bench.peers.rust import RustPeer, reach_or_closure

__all__ = ["make"]

# The first of 0.350 and later needs a newer compiler than the machines of the bench have.
_MANIFEST = '[dependencies]\ndbsp = "=0.349.0"\n'

_MAIN = """
use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::Tup2;
use dbsp::{NestedCircuit, OrdZSet, Runtime, Stream};

type Pair = Tup2<i64, i64>;

fn main() {
    let start = Instant::now();
    let reach = KIND == "reach";
    let out = if reach { "reach" } else { "path" };
    let (mut circuit, (edges, roots, found)) = Runtime::init_circuit(1, move |circuit| {
        let (edge, edges) = circuit.add_input_zset::<Pair>();
        let (root, roots) = circuit.add_input_zset::<i64>();
        let by_source = edge.map_index(|Tup2(x, y)| (*x, *y));
        // One of the two is built; the other's output stays empty.
        let found = if reach {
            // reach(y) :- reach(x), edge(x, y).
            circuit.recursive(|child, found: Stream<NestedCircuit, OrdZSet<i64>>| {
                let (edge, root) = (by_source.delta0(child), root.delta0(child));
                Ok(root.plus(&found.map_index(|x| (*x, ())).join(&edge, |_, _, y| *y)))
            })?.map(|x| Tup2(*x, 0))
        } else {
            // path(x, z) :- path(x, y), edge(y, z).
            circuit.recursive(|child, found: Stream<NestedCircuit, OrdZSet<Pair>>| {
                let (first, edge) = (edge.delta0(child), by_source.delta0(child));
                let by_end = found.map_index(|Tup2(x, y)| (*y, *x));
                Ok(first.plus(&by_end.join(&edge, |_, x, z| Tup2(*x, *z))))
            })?
        };
        Ok((edges, roots, found.output()))
    }).unwrap();
    let mut total = Sum::default();
    let read = |total: &mut Sum| for (row, _, weight) in found.consolidate().iter() {
        let cells = [row.0, row.1];
        total.add(&cells[..if reach { 1 } else { 2 }], weight);
    };
    let given = table("edge", 2);
    let given_roots = if reach { table("root", 1) } else { vec![] };
    let edits = table("edits", WIDTH);
    let clock = Instant::now();
    edges.append(&mut given.iter().map(|r| Tup2(Tup2(r[0], r[1]), 1)).collect());
    roots.append(&mut given_roots.iter().map(|r| Tup2(r[0], 1)).collect());
    circuit.transaction().unwrap();
    read(&mut total);
    println!("load {}", clock.elapsed().as_secs_f64());
    total.say(0, out);
    let last = edits.last().map_or(0, |e| e[0]);
    let mut at = 0;
    for epoch in 1..=last {
        if start.elapsed().as_secs_f64() > deadline() { return; }
        let clock = Instant::now();
        while at < edits.len() && edits[at][0] == epoch {
            let e = &edits[at];
            edges.push(Tup2(e[3], e[4]), e[1]);
            at += 1;
        }
        circuit.transaction().unwrap();
        read(&mut total);
        println!("epoch {} {}", epoch, clock.elapsed().as_secs_f64());
    }
    if last > 0 { total.say(last, out); }
}
"""


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    files = reach_or_closure(_MAIN)
    return RustPeer("dbsp", "dbsp", _MANIFEST, files, kinds=("reach", "tc"))
