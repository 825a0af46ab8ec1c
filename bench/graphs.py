"""Graphs and edit scripts, in numpy, each a function of its seed alone.

Lives here: R-MAT, breadth-first trees, single-edge edit scripts, batches. Edges are int64 arrays
of shape (m, 2), distinct, without self-loops. Invariant: a script is *valid*: it deletes only
edges that are present at that moment and inserts only edges that are absent (checked by a test).
Not here: anything about rules or peers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Ints", "batch_edits", "bfs_tree", "closure_size", "pick_roots", "reach_edits", "rmat"]
__all__ += ["edge_edits"]

Ints = npt.NDArray[np.int64]

_QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # Graph500's a, b, c, d
_SHIFT = np.int64(32)


def _keys(edges: Ints) -> Ints:
    return (edges[:, 0] << _SHIFT) | edges[:, 1]


def _edges(keys: Ints) -> Ints:
    return np.stack([keys >> _SHIFT, keys & np.int64(0xFFFFFFFF)], axis=1)


def _draw(rng: np.random.Generator, nodes: int, count: int) -> Ints:
    """`count` R-MAT samples over 2^ceil(log2 nodes) ids, filtered to ids below `nodes`."""
    a, b, c, _ = _QUADRANTS
    src = np.zeros(count, np.int64)
    dst = np.zeros(count, np.int64)
    for _ in range(max(1, (nodes - 1).bit_length())):
        u = rng.random(count)
        src = (src << 1) | (u >= a + b)
        dst = (dst << 1) | (((u >= a) & (u < a + b)) | (u >= a + b + c))
    keep = (src < nodes) & (dst < nodes) & (src != dst)
    return np.stack([src[keep], dst[keep]], axis=1)


def rmat(nodes: int, edges: int, seed: int) -> Ints:
    """`edges` distinct R-MAT edges on `nodes` nodes, labels shuffled, in random order.

    Source: Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining" (2004).
    Raises ValueError if the graph cannot hold that many edges.
    """
    if edges > nodes * (nodes - 1) // 4:
        raise ValueError(f"{edges} edges do not fit sparsely on {nodes} nodes")
    rng = np.random.default_rng(seed)
    label = rng.permutation(nodes).astype(np.int64)
    keys = np.empty(0, np.int64)
    while len(keys) < edges:
        drawn = _draw(rng, nodes, int(1.3 * (edges - len(keys))) + 1024)
        keys = np.unique(np.concatenate([keys, _keys(label[drawn])]))
    return _edges(rng.permutation(keys)[:edges])


def _csr(nodes: int, edges: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(edges[:, 0], kind="stable")
    start = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(edges[:, 0], minlength=nodes), out=start[1:])
    return start, edges[order, 1]


def bfs_tree(nodes: int, edges: Ints, roots: Ints) -> Ints:
    """The edges of one breadth-first tree from `roots`, shape (reached - roots, 2)."""
    start, target = _csr(nodes, edges)
    seen = np.zeros(nodes, np.bool_)
    seen[roots] = True
    frontier, tree = roots, [np.empty((0, 2), np.int64)]
    while len(frontier):
        degree = start[frontier + 1] - start[frontier]
        parent = np.repeat(frontier, degree)
        offset = np.arange(len(parent)) - np.repeat(np.cumsum(degree) - degree, degree)
        child = target[np.repeat(start[frontier], degree) + offset]
        fresh = ~seen[child]
        child, parent = child[fresh], parent[fresh]
        frontier, first = np.unique(child, return_index=True)
        seen[frontier] = True
        tree.append(np.stack([parent[first], frontier], axis=1))
    return np.concatenate(tree)


def closure_size(nodes: int, edges: Ints) -> int:
    """Number of pairs in the transitive closure, by one breadth-first search per node."""
    pairs = 0
    sources = np.unique(edges[:, 0])
    start, target = _csr(nodes, edges)
    for source in sources:
        frontier = np.unique(target[start[source] : start[source + 1]])
        seen = np.zeros(nodes, np.bool_)
        seen[frontier] = True
        while len(frontier):
            chunks = [target[start[v] : start[v + 1]] for v in frontier.tolist()]
            child = np.unique(np.concatenate(chunks))
            frontier = child[~seen[child]]
            seen[frontier] = True
        pairs += int(seen.sum())
    return pairs


def pick_roots(nodes: int, edges: Ints, count: int, seed: int, least_degree: int = 20) -> Ints:
    """`count` random nodes with at least `least_degree` edges out (fewer if none has so many)."""
    degree = np.bincount(edges[:, 0], minlength=nodes)
    pool = np.flatnonzero(degree >= min(least_degree, int(degree.max())))
    chosen = np.random.default_rng(seed).choice(pool, min(count, len(pool)), replace=False)
    return np.sort(chosen).astype(np.int64)


def _fresh(rng: np.random.Generator, nodes: int, present: Ints, count: int) -> Ints:
    """`count` distinct random edges (as keys) that are not among the keys `present`."""
    found = np.empty(0, np.int64)
    while len(found) < count:
        ends = rng.integers(0, nodes, (2 * count + 64, 2))
        keys = _keys(ends[ends[:, 0] != ends[:, 1]])
        found = np.unique(np.concatenate([found, keys[~np.isin(keys, present)]]))
    return rng.permutation(found)[:count]


def _script(rng: np.random.Generator, deletes: Ints, fresh: Ints, back: int) -> Ints:
    """Interleave deletes and inserts at random; `back` deleted edges are inserted again later.

    Returns shape (edits, 3): sign, source, target; one edit per epoch.
    """
    deletes = rng.permutation(deletes)
    again = deletes[:back]
    # Position of each edit as a random number: an edge comes back later than it went.
    at_delete = rng.random(len(deletes))
    at_again = at_delete[:back] + (1 - at_delete[:back]) * rng.random(back)
    keys = np.concatenate([deletes, again, fresh])
    signs = np.concatenate([np.full(len(deletes), -1), np.full(back + len(fresh), 1)])
    order = np.argsort(np.concatenate([at_delete, at_again, rng.random(len(fresh))]))
    return np.column_stack([signs[order], _edges(keys[order])]).astype(np.int64)


def reach_edits(nodes: int, edges: Ints, roots: Ints, seed: int, edits: int = 1000) -> Ints:
    """The reach-edit script: half deletes; of 1,000: 150 tree edges and 20 edges out of a root.

    The other deletes are random edges. A fifth of the inserts bring a deleted edge back, the
    rest are new random edges. Returns shape (edits, 3): sign, source, target.
    """
    rng = np.random.default_rng(seed)
    keys = _keys(edges)
    deletes = edits // 2
    tree_count, root_count = deletes * 3 // 10, deletes // 25
    from_root = rng.permutation(keys[np.isin(edges[:, 0], roots)])[:root_count]
    tree = _keys(bfs_tree(nodes, edges, roots))
    tree = rng.permutation(tree[~np.isin(tree, from_root)])[:tree_count]
    special = np.concatenate([from_root, tree])
    drawn = rng.permutation(len(keys))[: deletes + len(special)]
    other = keys[drawn][~np.isin(keys[drawn], special)][: deletes - len(special)]
    inserts = edits - deletes
    fresh = _fresh(rng, nodes, keys, inserts - inserts // 5)
    return _script(rng, np.concatenate([special, other]), fresh, inserts // 5)


def edge_edits(nodes: int, edges: Ints, seed: int, edits: int) -> Ints:
    """`edits` single-edge edits, half deletes of random edges; a fifth of the inserts come back.

    New edges join nodes that already carry edges, so they matter. Shape (edits, 3).
    """
    rng = np.random.default_rng(seed)
    keys = _keys(edges)
    deletes = rng.permutation(keys)[: edits // 2]
    inserts = edits - len(deletes)
    fresh = _fresh(rng, nodes, keys, inserts - inserts // 5)
    return _script(rng, deletes, fresh, inserts // 5)


def batch_edits(nodes: int, edges: Ints, seed: int, sizes: tuple[int, ...]) -> list[Ints]:
    """For each size one epoch: half random deletes of what is then present, half new edges.

    Returns arrays of shape (size, 3): sign, source, target; deletes come first.
    """
    rng = np.random.default_rng(seed)
    present = np.sort(_keys(edges))
    epochs = []
    for size in sizes:
        gone = rng.choice(len(present), size // 2, replace=False)
        new = _fresh(rng, nodes, present, size - size // 2)
        keys = np.concatenate([present[gone], new])
        signs = np.concatenate([np.full(len(gone), -1), np.full(len(new), 1)])
        epochs.append(np.column_stack([signs, _edges(keys)]).astype(np.int64))
        present = np.sort(np.concatenate([np.delete(present, gone), new]))
    return epochs
