from __future__ import annotations

from pathlib import Path

import pytest

from deltafix.datalog.conditions import evaluate, prepare
from deltafix.datalog.format import format_program
from deltafix.datalog.lexer import tokenize
from deltafix.datalog.load import analyse
from deltafix.datalog.preprocess import MAX_EXPANSION, preprocess
from deltafix.datalog.program import Program
from deltafix.datalog.source import Source
from deltafix.errors import ProgramError


def texts(text: str) -> str:
    return " ".join(token.text for token in preprocess(Source(text)).tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define A 1\nA b A", "1 b 1"),
        ("#define A B\n#define B 2\nA", "2"),
        ("#define A A\nA", "A"),
        ("#define A B\n#define B A\nA", "A"),
        ("#define P(x) (x, x)\nP(a) P", "( a , a ) P"),
        ("#define P(x, y) y x\nP((1, 2), q(3, 4))", "q ( 3 , 4 ) ( 1 , 2 )"),
        ("#define P() z\nP()", "z"),
        ("#define P(x) Q(x)\n#define Q(x) x + 1\nP(P(3))", "3 + 1 + 1"),
        ("#define N (x)\nN", "( x )"),
        ("#define A 1 \\\n 2\nA", "1 2"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#ifdef A\nx\n#else\ny\n#endif", "y"),
        ("#define A\n#ifdef A\nx\n#else\ny\n#endif", "x"),
        ("#ifndef A\nx\n#endif z", "x"),
        ("#ifdef A\n#ifndef B\nx\n#endif\ny\n#else\n#ifndef B\nz\n#endif\n#endif", "z"),
        ("#ifdef A\n#define B 1\n#endif\nB", "B"),
        ("#if 1\nx\n#else\ny\n#endif", "x"),
        ("#if 0\nx\n#elif 1\ny\n#elif 1\nz\n#else\nw\n#endif", "y"),
        ("#if 0\nx\n#elif 0\ny\n#else\nw\n#endif", "w"),
        ("#if 1\nx\n#elif 1 / 0\ny\n#endif", "x"),
        ("#if 0\n#if 1\nx\n#elif 1\ny\n#endif\n#else\nz\n#endif", "z"),
        ("#ifdef A\nx\n#elif defined(B) || !defined A\ny\n#endif", "y"),
        ("#define N 3\n#if N > 2 && N != 4\nx\n#endif", "x"),
        ("#define P(x) x * 2\n#if P(3) == 6\nx\n#endif", "x"),
        ("#define A 1\n#if defined A && defined(A)\nx\n#endif", "x"),
        ("#pragma once\n#line 3\nx", "x"),
        ("#define J(a, b) a ## b\nJ(x, 1) J(r_, out)(1)", "x1 r_out ( 1 )"),
        ("#define J(a, b, c) a##b##c\nJ(x, , z) J(1, 2, 3)", "xz 123"),
        ("#define N 7\n#define J(a) a ## N a\nJ(N)", "NN 7"),
        ("#define J(a) r ## a(a)\n#define r2 z\nJ(2)", "z ( 2 )"),
        ('#define Q(a) #a\nQ(x + "y\\n")', '"x + \\"y\\\\n\\""'),
        ("#define N 7\n#define Q(a) #a a\nQ(N)", '"N" 7'),
        ("#define A x ## y\nA", "xy"),
        ("#if 0\n#error never\n#endif\nx", "x"),
    ],
)
def test_macros_and_conditions(text: str, expected: str) -> None:
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / -2", -3),
        ("-7 % 3", -1),
        ("1 << 4 | 1", 17),
        ("256 >> 2 ^ 1 & 3", 65),
        ("!0 + !5", 1),
        ("- - 3 + +1", 4),
        ("0x10 == 16", 1),
        ("2 < 1 || 2 >= 2 && 3 <= 2", 0),
        ("unknown", 0),
        ("1 - 1 - 1", -1),
    ],
)
def test_conditions_compute_as_c_does(text: str, value: int) -> None:
    assert evaluate(prepare(tokenize(Source(text))[0], ())) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a number is missing"),
        ("1 +", "a number is missing"),
        ("1 2", "unexpected `2`"),
        ("(1", "a bracket is never closed"),
        ("1 / 0", "division by zero"),
        ('"a"', 'expected a number, found `"a"`'),
        ("defined", "`defined` wants one name"),
        ("defined(1)", "`defined` wants one name"),
        ("defined(A", "`defined` wants one name"),
        ("(" * 5_000, "nested more than 64 deep"),
        ("9223372036854775807 " + "* 9223372036854775807 " * 9, "a number does not fit"),
        ("1 << 64 << 64 << 64 << 64", "a number does not fit"),
    ],
)
def test_conditions_that_cannot_be_read_say_why(text: str, words: str) -> None:
    found = analyse(f"#if {text}\n.decl broken(\n#endif\n.decl a(x: number)\n")
    assert [item.code for item in found.errors] == ["DF107"]
    assert words in found.errors[0].message


def test_a_program_may_stop_or_warn_with_its_own_words() -> None:
    found = analyse("#ifndef LIMIT\n#error LIMIT is not set\n#endif\n#warning old form\n")
    assert [(d.severity, d.code, d.message) for d in found.diagnostics] == [
        ("error", "DF107", "LIMIT is not set"),
        ("warning", "DF107", "old form"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#define J(a) ## a", "`##` joins two tokens"),
        ("#define J(a) a ##", "`##` joins two tokens"),
        ("#define J(a) # b", "`#` makes a string of a parameter"),
        ("#define J #", "`#` makes a string of a parameter"),
        ("#define J(a, b) a ## b\nJ(1, x)", "`1` and `x` do not join"),
        ("#define J(a, b) a ## b\nJ(+, *)", "`+` and `*` do not join"),
        ("#define", "#define wants a name"),
        ("#define J(a", "are never closed"),
        ("#define J(a b) a", "are not names with commas"),
    ],
)
def test_macros_that_cannot_be_read_or_used(text: str, words: str) -> None:
    found = [item for item in preprocess(Source(text)).diagnostics if item.code == "DF107"]
    assert len(found) == 1
    assert words in found[0].message


def test_a_quoted_argument_is_a_string_of_the_program() -> None:
    text = '#define SAY(a) s(#a).\n.decl s(x: symbol)\nSAY(one two)\nSAY("q")\n'
    program = Program.parse(text)
    assert [rule.heads[0].args[0].value for rule in program.rules] == ["one two", '"q"']


def test_branches_out_of_place() -> None:
    found = analyse("#elif 1\n#else\n#endif\n#if 1\n#else\n#elif 1\n#else\n#endif\n")
    assert [item.span.line for item in found.errors if item.span] == [1, 2, 3, 6, 7]


def test_tokens_of_a_macro_stand_where_it_is_used() -> None:
    found = preprocess(Source("#define A b(1)\n\n  A"))
    assert {(token.span.line, token.span.column) for token in found.tokens} == {(3, 3)}


def test_an_included_file_keeps_its_own_places(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "decl.dl").write_text('.decl a(x: number)\n#include "more.dl"\n')
    (tmp_path / "parts" / "more.dl").write_text("a(1).\na(b).\n")
    main = tmp_path / "main.dl"
    main.write_text('#include "parts/decl.dl"\na(2).\na(c).\n')
    with pytest.raises(ProgramError) as caught:
        Program.from_file(main)
    places = [(Path(d.span.path).name, d.span.line) for d in caught.value.diagnostics]
    assert places == [("main.dl", 3), ("more.dl", 2)]
    assert "2 | a(b)." in str(caught.value)


def test_a_guarded_include_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text("#ifndef A\n#define A\n.decl a(x: number)\n#endif\n")
    main = tmp_path / "main.dl"
    main.write_text('#include "a.dl"\n#include "a.dl"\na(1).\n')
    assert [relation.name for relation in Program.from_file(main).relations] == ["a"]


def test_includes_stay_inside_the_folder_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "secret.dl").write_text(".decl secret()\n")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.dl").symlink_to(tmp_path / "secret.dl")
    for name in ("../secret.dl", str(tmp_path / "secret.dl"), "link.dl"):
        found = analyse(f'#include "{name}"\n', str(inside / "main.dl"))
        assert [item.code for item in found.diagnostics] == ["DF107"]
        assert "outside the program's folder" in found.diagnostics[0].message


def test_an_include_without_a_file_says_what_to_do() -> None:
    (found,) = analyse('#include "a.dl"\n').diagnostics
    assert found.code == "DF107"
    assert found.help is not None
    assert "from_file" in found.help


def test_a_file_that_includes_itself_ends(tmp_path: Path) -> None:
    main = tmp_path / "main.dl"
    main.write_text('#include "main.dl"\n')
    with pytest.raises(ProgramError, match="nested more than 64 deep"):
        Program.from_file(main)


def test_a_macro_bomb_ends() -> None:
    bomb = "#define A0 x\n" + "".join(f"#define A{i} A{i - 1} A{i - 1}\n" for i in range(1, 40))
    found = preprocess(Source(bomb + "A39"))
    assert [item.code for item in found.diagnostics] == ["DF107"]
    assert f"{MAX_EXPANSION:,}" in found.diagnostics[0].message


def test_a_file_with_once_is_read_once_however_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "n.dl").write_text(".once\n.decl n(x: number)\nn(1).\n")
    (tmp_path / "parts" / "m.dl").write_text('.include "n.dl"\n.decl m(x: number)\n')
    main = tmp_path / "main.dl"
    main.write_text(
        '.include "parts/n.dl"\n#include "parts/m.dl"\n.comp C {\n.include "parts/n.dl"\n}\n'
    )
    program = Program.from_file(main)
    assert [relation.name for relation in program.relations] == ["n", "m"]
    assert len(program.rules) == 1


def test_folders_of_the_user_are_searched_after_the_including_one(tmp_path: Path) -> None:
    for folder, name in (("here", "a"), ("one", "a"), ("one", "b"), ("two", "c")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.dl").write_text(f".decl {folder}_{name}()\n")
    main = tmp_path / "here" / "main.dl"
    main.write_text('#include "a.dl"\n.include "b.dl"\n#include <c.dl>\n')
    program = Program.from_file(main, include=[tmp_path / "one", tmp_path / "two"])
    assert [relation.name for relation in program.relations] == ["here_a", "one_b", "two_c"]
    main.write_text('#include "../two/c.dl"\n')
    with pytest.raises(ProgramError, match="outside the program's folder"):
        Program.from_file(main, include=[tmp_path / "one"])
    assert len(Program.from_file(main, include=[tmp_path / "two"]).relations) == 1


def test_macros_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "p.dl"
    file.write_text("#ifdef MORE\n.decl n(x: number)\nn(TWICE(LIMIT)).\n#endif\n")
    macros = {"MORE": "", "LIMIT": "21", "TWICE(x)": "2 * x"}
    assert Program.from_file(file).rules == ()
    assert len(Program.from_file(file, macros=macros).rules) == 1
    with pytest.raises(ProgramError, match="wants a name"):
        Program.from_file(file, macros={"1": "2"})


def test_an_include_without_a_name_is_refused() -> None:
    found = analyse(".include\n.decl n(x: number)\n.once\n")
    assert [item.code for item in found.errors] == ["DF107"]
    assert len(found.program.relations) == 1


def test_a_text_knows_its_place(tmp_path: Path) -> None:
    file = tmp_path / "p.dl"
    file.write_text(
        "#define HERE at(__FILE__, __LINE__).\n.decl at(x: symbol, y: number)\nHERE\n\n"
        "at(__FILE__, __LINE__).\n"
    )
    found = [tuple(arg.value for arg in r.heads[0].args) for r in Program.from_file(file).rules]
    assert found == [(str(file), 3), (str(file), 5)]


def test_annotations_and_doc_comments_are_comments() -> None:
    text = (
        '/// rows\n@[doc = "a ] [ in text"]\n.decl n(@[key] x: number)\n'
        '.comp C {\n    @![doc = "inner", tags[1]]\n    .decl m(x: number)\n}\n@[]\nn(1).\n'
    )
    program = Program.parse(text)
    assert [relation.name for relation in program.relations] == ["n"]
    assert Program.parse(format_program(text)) == program
    assert '@[doc = "a ] [ in text"]' in format_program(text)
