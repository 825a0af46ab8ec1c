"""FlowLog's incremental engine, one worker: the workload's own rules, compiled by its crate."""

from __future__ import annotations

from bench.peers.base import Peer
from bench.peers.rust import FRAME, RustPeer
from bench.workload import Workload

__all__ = ["make"]

_MANIFEST = """[dependencies]
flowlog-runtime = "0.6"

[build-dependencies]
flowlog-build = "0.7"
"""

_BUILD = 'fn main() -> std::io::Result<()> { flowlog_build::compile("program.dl") }\n'

_MAIN = """
mod program { include!(concat!(env!("OUT_DIR"), "/program.rs")); }

fn main() {
    let start = Instant::now();
    let mut engine = program::IncrementalEngine::new(1);
GIVEN
    let edits = table("edits", WIDTH);
    let clock = Instant::now();
STAGE
    let found = engine.commit();
    println!("load {}", clock.elapsed().as_secs_f64());
SUMS
COUNT
SAY0
    let last = edits.last().map_or(0, |e| e[0]);
    let mut at = 0;
    for epoch in 1..=last {
        if start.elapsed().as_secs_f64() > deadline() { return; }
        let clock = Instant::now();
        while at < edits.len() && edits[at][0] == epoch {
            let e = &edits[at];
            match (e[2], e[1] > 0) {
EDITS
                _ => unreachable!(),
            }
            at += 1;
        }
        let found = engine.commit();
COUNT
        println!("epoch {} {}", epoch, clock.elapsed().as_secs_f64());
    }
    if last > 0 {
SAY
    }
}
"""


def _tuple(row: str, arity: int, first: int = 0) -> str:
    return "(" + "".join(f"{row}[{first + i}], " for i in range(arity)) + ")"


def _main(workload: Workload) -> str:
    """The driver: FlowLog generates one method and one field per relation, so this does too."""
    arity, outputs = workload.ruleset.arity, workload.outputs
    given = [f'    let {n}_rows = table("{n}", {arity[n]});' for n in workload.inputs]
    stage = [
        f"    engine.insert_{n}({n}_rows.iter().map(|r| {_tuple('r', arity[n])}).collect());"
        for n in workload.inputs
    ]
    edits = [
        f"                ({i}, {str(up).lower()}) => "
        f"engine.{verb}_{n}(vec![{_tuple('e', arity[n], 3)}]),"
        for i, n in enumerate(workload.inputs)
        for verb, up in (("insert", True), ("remove", False))
    ]
    count = []
    for n in outputs:
        cells = "".join(f"r.{i}, " for i in range(arity[n]))
        count.append(f"    for (r, d) in &found.{n} {{ sum_{n}.add(&[{cells}], *d as i64); }}")
    blocks = {
        "GIVEN": given,
        "STAGE": stage,
        "SUMS": [f"    let mut sum_{n} = Sum::default();" for n in outputs],
        "COUNT": count,
        "SAY0": [f'    sum_{n}.say(0, "{n}");' for n in outputs],
        "EDITS": edits,
        "SAY": [f'        sum_{n}.say(last, "{n}");' for n in outputs],
        "WIDTH": [str(workload.edits.shape[1])],
    }
    text = _MAIN.replace("WIDTH", blocks.pop("WIDTH")[0])
    lines = [blocks.get(line, [line]) for line in text.split("\n")]
    return FRAME + "\n".join(part for block in lines for part in block)


def _files(workload: Workload) -> dict[str, str]:
    text = workload.ruleset.datalog(number="int64")
    for relation in workload.inputs:
        columns = ", ".join(f"c{i}: int64" for i in range(workload.ruleset.arity[relation]))
        declared = f".decl {relation}({columns})"
        text = text.replace(declared, f"{declared} mutable")
    return {"build.rs": _BUILD, "program.dl": text, "src/main.rs": _main(workload)}


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    return RustPeer("flowlog", "flowlog-build", _MANIFEST, _files)
