"""Scripts that use real packages as their users do, for runs that are watched.

Invariant: each asserts something of what it got, reads no network and takes a second at most. Not
here: who watches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["SCRIPTS"]

_PAGE = """
# A page

Some *text* with `code`, a [link](https://example.org "title"), **bold** and an ![image](a.png).

- one
- two
    1. nested
    2. items

> quoted
> lines

| a | b |
|---|:-:|
| 1 | 2 |

```python
print("x")
```

<b>raw</b> &amp; ~~gone~~ <https://example.org>

[ref]: /to "there"
See [ref], a hard  \nbreak, and \\* an escape.

Setext
======

***
"""

_TEMPLATE = """
{% macro row(item, n=1) %}<li>{{ item.name|upper }}: {{ item.price * n }}</li>{% endmacro %}
{% set total = items|sum(attribute='price') %}
{% for item in items if item.price > 1 %}
  {% if loop.first %}{{ row(item) }}{% elif loop.last %}{{ row(item, n=2) }}{% else %}-{% endif %}
{% else %}nothing{% endfor %}
{{ total|round(1) }} {{ "%s" % total if total is number else "none" }} {{ missing|default("x") }}
{% block body %}{{ items|map(attribute='name')|join(', ')|escape }}{% endblock %}
{# gone #}{% raw %}{{ kept }}{% endraw %}
{% with a = [1, 2][0], b = {'k': 2} %}{{ a + b.k }} {{ a == 1 and not b.none }}{% endwith %}
{% filter lower %}LOUD{% endfilter %}
"""


def packaging() -> None:
    """Versions, specifiers, markers, requirements, tags, names of files."""
    from packaging import markers, requirements, specifiers, tags, utils, version

    every = sorted(map(version.parse, ["1.0", "1.0.dev1", "1!2.0", "1.0.post2+local.7", "2.0rc1"]))
    assert str(every[-1]) == "1!2.0"
    assert every[0].is_prerelease
    assert version.Version("1.2.3").release == (1, 2, 3)
    chosen = specifiers.SpecifierSet(">=1.0,!=1.5.*,<2,~=1.2,===1.3")
    assert list(chosen.filter(["1.3", "1.5.1", "3"])) == ["1.3"]
    assert "1.3" in chosen & specifiers.SpecifierSet("<=1.9")
    wanted = requirements.Requirement("shop[a,b]>=1.0,<2; python_version >= '3.8' and extra == 'x'")
    assert wanted.marker is not None
    assert not wanted.marker.evaluate({"extra": "y"})
    assert str(requirements.Requirement("shop @ https://example.org/shop.whl")).startswith("shop")
    assert markers.Marker("os_name in 'posix nt' or sys_platform == 'none'").evaluate()
    assert utils.canonicalize_name("A_B.c") == "a-b-c"
    assert utils.parse_wheel_filename("shop-1.0-py3-none-any.whl")[0] == "shop"
    assert utils.parse_sdist_filename("shop-1.0.tar.gz")[0] == "shop"
    assert len({*tags.sys_tags()}) > 10
    for text in ("x>=", "x; y == 1"):
        try:
            requirements.Requirement(text)
        except requirements.InvalidRequirement as error:
            assert str(error)  # noqa: PT017


def h11() -> None:
    """A client and a server of HTTP/1.1 that talk: a body of known length, chunks, an error."""
    import h11

    client, server = h11.Connection(h11.CLIENT), h11.Connection(h11.SERVER)

    def events(to: h11.Connection, *said: bytes | None) -> list[str]:
        for data in said:
            if data:  # nothing at all would mean that the connection is closed
                to.receive_data(data)
        found = []
        while (event := to.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            found.append(type(event).__name__)
            if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
        return found

    for turn in range(2):
        headers = [("Host", "example.org"), ("Content-Length", "4")]
        sent = client.send(h11.Request(method="POST", target="/", headers=headers))
        sent2 = client.send(h11.Data(data=b"data"))
        assert events(server, sent, sent2, client.send(h11.EndOfMessage()))[0] == "Request"
        kept = [("Transfer-Encoding", "chunked")]
        parts = [
            server.send(h11.Response(status_code=200, headers=kept)),
            server.send(h11.Data(data=b"answer")),
            server.send(h11.EndOfMessage(headers=[("trailer", "x")])),
        ]
        assert events(client, *parts) == ["Response", "Data", "EndOfMessage"]
        if turn == 0:
            client.start_next_cycle()
            server.start_next_cycle()
    broken = h11.Connection(h11.SERVER)
    broken.receive_data(b"nonsense\r\n\r\n")
    try:
        broken.next_event()
    except h11.RemoteProtocolError as error:
        broken.send(h11.Response(status_code=error.error_status_hint, headers=[]))
    assert broken.their_state is h11.ERROR


def markdown_it() -> None:
    """A page with what Markdown has, by two sets of rules."""
    from markdown_it import MarkdownIt

    for rules in ("js-default", "commonmark"):
        parser = MarkdownIt(rules)
        assert "<h1>A page</h1>" in parser.render(_PAGE)
        assert parser.parse(_PAGE)[0].type == "heading_open"
        parser.disable("image")
        assert "<img" not in parser.render(_PAGE)


def jinja2() -> None:
    """A template with what templates have, one that includes another, errors."""
    import jinja2

    items = [{"name": n, "price": p} for n, p in (("pen", 1.5), ("ink", 4.0), ("pad", 0.5))]
    pages = {
        "base": _TEMPLATE,
        "child": "{% extends 'base' %}{% block body %}{{ super() }}"
        "{% include 'part' %}{% endblock %}",
        "part": "{% from 'tools' import twice %}{{ twice('ab') }}",
        "tools": "{% macro twice(x) %}{{ x ~ x }}{{ caller is defined }}{% endmacro %}",
    }
    environment = jinja2.Environment(loader=jinja2.DictLoader(pages), autoescape=True)
    assert "PEN" in environment.get_template("child").render(items=items)
    assert environment.from_string("{{ x.y }}").render(x={"y": 3}) == "3"
    for broken in ("{% for %}", "{{ x"):
        try:
            environment.from_string(broken)
        except jinja2.TemplateSyntaxError as error:
            assert str(error)  # noqa: PT017


SCRIPTS: Mapping[str, Callable[[], object]] = {
    "packaging": packaging,
    "h11": h11,
    "markdown_it": markdown_it,
    "jinja2": jinja2,
}
"""By package, in the order of the tables."""
