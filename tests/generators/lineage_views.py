"""One live lineage for many small trees: each replaces the files of the one before."""

from __future__ import annotations

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE

__all__ = ["TABLES", "Trees"]

TABLES = "CREATE TABLE r (a INT, b INT, c INT); CREATE TABLE s (a INT, d INT);"


class Trees:
    """A job and short forms of what it answers."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def load(self, tree: dict[str, str]) -> None:
        """Make this the whole tree."""
        said = [LINEAGE.extract(path, text.encode(), "") for path, text in tree.items()]
        assert self.job.update(said, deleted=list(self.job.fragments)).unreadable == {}

    def rows(
        self, view: str, tree: dict[str, str] | str, without: tuple[str, ...] = ()
    ) -> list[str]:
        """The rows of a view, a line each, without those whose first column is among `without`."""
        self.load({"x.sql": tree} if isinstance(tree, str) else tree)
        return [" ".join(map(str, row)) for row in self.job.rows(view) if row[0] not in without]

    def flows(self, text: str, dialect: str = "") -> list[str]:
        """What flows into `v`, as `column table.column how`; r and s are declared."""
        head = f"-- deltafix: dialect={dialect}\n" if dialect else ""
        self.load({"x.sql": f"{head}{TABLES}{text}"})
        assert self.job.rows("unparsed") == []
        found = [row for row in self.job.rows("flows") if str(row[0]).lower() == "v"]
        return [f"{c} {t}.{d} {how}" for _, c, t, d, how in found]
