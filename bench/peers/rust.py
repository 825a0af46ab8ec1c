"""Peers that are Rust libraries: a small program is generated into the cache, built and run.

Lives here: the frame of such a program (reading `.i64` files, timing, hashing), building it with
cargo, and reading what it printed. Builds share one target folder, so crates are compiled once;
building is never timed. Invariant: answers are kept as running count and hash (both are sums over
rows), so a peer that hands out changes needs no table of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from bench.outcome import Outcome
from bench.peers.base import Peer, build_folder, call
from bench.workload import Workload

__all__ = ["BUILD", "FRAME", "RustPeer", "reach_or_closure"]

BUILD = 1800.0
"""Seconds that building a peer may take, the first time; DBSP's crates take ten minutes."""

FRAME = """
use std::time::Instant;

fn table(name: &str, width: usize) -> Vec<Vec<i64>> {
    let path = format!("{}/{}.i64", std::env::args().nth(1).unwrap(), name);
    let bytes = std::fs::read(path).unwrap();
    let cells: Vec<i64> =
        bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
    cells.chunks_exact(width).map(|r| r.to_vec()).collect()
}

fn mix(row: &[i64]) -> u64 {
    let mut h = 0u64;
    for c in row {
        h = h.wrapping_add(*c as u64).wrapping_add(0x9E3779B97F4A7C15);
        h = (h ^ (h >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94D049BB133111EB);
        h ^= h >> 31;
    }
    h
}

#[derive(Default, Clone, Copy)]
struct Sum { count: i64, hash: u64 }

impl Sum {
    fn add(&mut self, row: &[i64], diff: i64) {
        self.count += diff;
        self.hash = self.hash.wrapping_add(mix(row).wrapping_mul(diff as u64));
    }
    fn say(&self, epoch: i64, name: &str) {
        println!("answer {} {} {} {:016x}", epoch, name, self.count, self.hash);
    }
}

fn deadline() -> f64 { std::env::args().nth(2).unwrap().parse().unwrap() }
"""


def build(name: str, manifest: str, files: dict[str, str], deadline: float) -> Path:
    """Write a crate (binary `name`) and build it for release; the path of the binary.

    Raises:
        RuntimeError: cargo failed, for example because crates.io cannot be reached.
        TimeoutError: `deadline` passed.
    """
    home = build_folder("rust") / name
    target = build_folder("rust-target")
    (home / "src").mkdir(parents=True, exist_ok=True)
    text = f'[package]\nname = "{name}"\nversion = "0.0.0"\nedition = "2021"\n\n{manifest}'
    for path, content in {"Cargo.toml": text, **files}.items():
        old = home / path
        if not old.is_file() or old.read_text() != content:
            old.write_text(content)
    command = ["cargo", "build", "--quiet", "--release", "--target-dir", str(target)]
    call(command, home, deadline)
    return target / "release" / name


def crate_version(name: str, crate: str) -> str:
    """The version of `crate` that a built program was locked to."""
    lock = build_folder("rust") / name / "Cargo.lock"
    lines = lock.read_text().splitlines() if lock.is_file() else []
    for here, after in pairwise(lines):
        if here == f'name = "{crate}"':
            return after.split('"')[1]
    return "unknown"


def play(
    binary: Path, workload: Workload, folder: Path, outcome: Outcome, seconds: float
) -> Outcome:
    """Run a built program on the workload's files and read its lines into `outcome`."""
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    done = subprocess.run(
        [str(binary), str(folder), f"{0.9 * seconds:.0f}"],
        capture_output=True,
        text=True,
        timeout=max(1.0, seconds),
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{binary.name} ended with {done.returncode}: {done.stderr[-300:]}")
    for line in done.stdout.splitlines():
        match line.split():
            case ["load", value]:
                outcome.load_seconds = float(value)
            case ["epoch", number, value]:
                outcome.timed.append(int(number))
                outcome.epochs.append(float(value))
            case ["answer", epoch, name, count, hashed]:
                outcome.answers.setdefault(epoch, {})[name] = [int(count), hashed]
    if len(outcome.epochs) < workload.epochs:
        outcome.notes.append(f"stopped by the time limit after {len(outcome.epochs)} epochs")
    return outcome


def reach_or_closure(main: str) -> Callable[[Workload], dict[str, str]]:
    """The files of a crate whose `main` is written for both, by the constants KIND and WIDTH."""

    def files(workload: Workload) -> dict[str, str]:
        shape = f'const KIND: &str = "{workload.kind}";\n'
        shape += f"const WIDTH: usize = {workload.edits.shape[1]};\n"
        return {"src/main.rs": FRAME + shape + main}

    return files


class RustPeer(Peer):
    """A crate, and the program over it that `files` makes of a workload of one of the `kinds`."""

    def __init__(
        self,
        name: str,
        crate: str,
        manifest: str,
        files: Callable[[Workload], dict[str, str]],
        *,
        kinds: tuple[str, ...] = (),
    ) -> None:
        self._name, self._crate = name, crate
        self._manifest, self._files, self._kinds = manifest, files, kinds

    def missing(self) -> str | None:
        return None if shutil.which("cargo") else "cargo is not on PATH"

    def version(self) -> str:
        return "unknown"  # until it is built: what the manifest's bounds came to

    def cannot(self, workload: Workload) -> str | None:
        if not self._kinds or workload.kind in self._kinds:
            return None
        return f"written for {' and '.join(self._kinds)} only"

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        seconds = deadline - time.monotonic()  # building has a limit of its own
        name = f"{self._name}-{workload.kind}"
        limit = time.monotonic() + BUILD
        binary = build(name, self._manifest, self._files(workload), limit)
        outcome.version = crate_version(name, self._crate)
        return play(binary, workload, folder, outcome, seconds)
