"""However the partitions of a topic are cut by polls and epochs, a pipeline gives one answer.

The judges are those of files: messages one by one, each late by what its own partition said before
(`judges/oracle_inputs.py`, `judges/oracle_keyed.py`). A `TopicSplit` is a `Split` whose messages go
to partitions that are far apart in their versions; each poll takes a random share of each. Either
reader opens it, and takes it over from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.agree.test_pipeline_keys import KeyedSplit, draw_changes, draw_keys
from tests.agree.test_pipeline_splits import EXAMPLES, Split, draw_messages, draw_options
from tests.judges.oracle_inputs import judge
from tests.judges.oracle_keyed import judge as judge_keyed
from tests.servers.topics import LocalMemoryTopic, MemorySpark, MemoryTopic
from tests.support import pipelines

from deltafix.pipeline.policy import Policy
from deltafix.pipeline.runner import Pipeline

FORMS = ("json", "debezium")


def draw_partitions(rng: Random, form: str) -> list[Any]:
    """Messages of up to three partitions; all that is said of a row is said in one of them."""
    names = "012"[: rng.randrange(1, 4)]
    ahead = {name: rng.choice([0, 0, 4, 30, -30]) for name in names}
    of_row = {x: rng.choice(names) for x in "ab"}
    drawn = []
    for one in draw_messages(rng, form):
        images = tuple(image for image in one.images if image[1][0] == one.images[-1][1][0])
        where = of_row[images[0][1][0]] if images else rng.choice(names)
        version = one.version + ahead[where]
        drawn.append(replace(one, images=images, partition=where, version=version))
    return drawn


class TopicSplit(Split):
    """As `Split`, of a topic in memory."""

    def __init__(self, folder: Any, form: str, options: Any, rng: Random, aside: str) -> None:
        super().__init__(folder, form, options, rng, aside)
        self._there: dict[str, Any] = {name: (0, []) for name in "012"}
        file = folder / "p.toml"
        text = file.read_text().replace('format = "json"\n', "")
        kafka = 'source = "kafka"\nservers = "none:1"\ntopic = "edges"'
        file.write_text(text.replace('source = "files"\npath = "in"', kafka))

    def _write(self, messages: Sequence[Any]) -> None:
        path = self.folder / "message"
        for one in messages:
            self.write(path, [one])
            self._there[one.partition][1].append(path.read_text().rstrip("\n"))

    def open(self) -> Pipeline:
        def source(config: Any, one: Any, schemas: Any) -> MemoryTopic | LocalMemoryTopic:
            policy = Policy.of(one.values, config.values["bad_rows"])
            given = (one.name, schemas[one.name], one.values, policy)
            topic: MemoryTopic | LocalMemoryTopic
            if self._rng.random() < 0.5:  # a state goes from one reader to the other
                topic = MemoryTopic(MemorySpark(self._rng), *given)
            else:
                topic = LocalMemoryTopic(*given)
                topic.rng = self._rng
            topic.there = self._there
            return topic

        return pipelines.open_pipeline(self.folder / "p.toml", make_source=source)


class KeyedTopicSplit(TopicSplit, KeyedSplit):
    """As `TopicSplit`, of keyed changes: those of a key are in any partition."""


@pytest.mark.parametrize("keeper", ["driver", "shards"])
@pytest.mark.parametrize("form", FORMS)
def test_agree_any_cut_of_partitions_gives_one_answer(
    form, keeper, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    for seed in range(2 * EXAMPLES):
        rng = Random(f"topic {form} {seed}")
        messages, options = draw_partitions(rng, form), draw_options(rng)
        wanted = judge(messages, options)
        for number in range(2):
            split = TopicSplit(memory / f"{seed} {number}", form, options, rng, "quarantine")
            split.run(messages)
            judged["epochs of topics"] += split.check(wanted)
            judged["splits of topics"] += 1


@pytest.mark.parametrize("keeper", ["driver", "shards"])
@pytest.mark.parametrize("form", FORMS)
def test_agree_any_cut_of_partitions_with_keys_gives_one_answer(
    form, keeper, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    for seed in range(2 * EXAMPLES):
        rng = Random(f"keyed topic {form} {seed}")
        keys = replace(draw_keys(rng), sequence=rng.choice([1, 2]))
        names = "012"[: rng.randrange(1, 4)]
        drawn = draw_changes(rng, form, keys)
        changes = [replace(one, partition=rng.choice(names)) for one in drawn]
        split = KeyedTopicSplit(memory / str(seed), form, keys, rng, "quarantine")
        split.run(changes)
        judged["epochs of topics"] += split.check(judge_keyed(changes, keys))
        judged["splits of topics"] += 1
