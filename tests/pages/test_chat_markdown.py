"""Answers as Markdown: what is shown, and what nobody can make it load, run or hide."""

from __future__ import annotations

import re
import time

import pytest

from pages.chat.markdown import DEEP, LONG, render_answer, render_growing

TAGS = (
    "p blockquote ul ol li strong em s u br hr code pre div span button table thead tbody tr th td".split()
)  # nothing that loads, runs or leads away
TAG = re.compile(r"</?([a-z0-9]+)((?:\s[^>]*)?)>")
ATTRIBUTES = re.compile(
    r'^(?: (?:class="[a-z -]+"|type="button"|role="heading"|aria-level="\d"|start="\d+"|style="text-align:\w+"| ?/))*$'
)


def words(shown: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", shown).split())


def safe(shown: str) -> None:
    """Only our own tags and attributes: anything else that looks like one is escaped."""
    for name, attributes in TAG.findall(shown):
        assert name in TAGS, shown
        assert ATTRIBUTES.match(attributes.replace(" /", "")), attributes
    assert "<" not in TAG.sub("", shown), shown


def test_headings_lists_tables_code_and_quotes_are_shown() -> None:
    shown = render_answer(
        "# Top\n## Under\nSome **bold**, *slanted*, ~~gone~~ and `inline <b>`.\nA second line.\n\n- one\n  1. two\n\n> said\n\n"
        "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n```python\nprint('<x>')\n```\n\n    indented\n\n---\nend"
    )
    safe(shown)
    for piece in (
        '<p class="md-head" role="heading" aria-level="5">Top</p>',
        'aria-level="6">Under</p>',
        "<strong>bold</strong>",
        "<em>slanted</em>",
        "<s>gone</s>",
        "<code>inline &lt;b&gt;</code>",
        "<br />",
        "<li>one\n<ol>\n<li>two</li>",
        "<blockquote>\n<p>said</p>",
        '<th style="text-align:left">a</th>',
        '<td style="text-align:right">2</td>',
        '<span>python</span><button type="button" class="md-copy">Copy</button></div>',
        '<pre class="ts-text">print(&#x27;&lt;x&gt;&#x27;)\n</pre>',
        "indented",
        "<hr />",
    ):
        assert piece in shown, piece


SHOWN = 'image not loaded:{} <span class="md-url">({})'
DIRECTIVES = ":material/home: :red[x] :smile: :blue-background[y] :streamlit:"
HOSTILE = {
    "an image": ("![a cat](https://evil.example/x.png)", SHOWN.format(" a cat", "https://evil.example/x.png")),
    "an image in a link": ("[![x](https://evil/a.png)](https://evil/b)", "(https://evil/a.png)"),
    "an image of data": ("![](data:image/svg+xml;base64,PHN2Zz4=)", SHOWN.format("", "data:image/svg+xml;base64,PHN2Zz4=")),
    "an image tag": ("<img src=https://evil.example/x onerror=alert(1)>", "&lt;img src=https://evil.example/x onerror"),
    "a script": ("a <script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    "a block of script": ("<script>\nalert(1)\n</script>", "&lt;script&gt;"),
    "a style sheet": ("<style>*{background:url(https://evil)}</style>", "&lt;style&gt;"),
    "a comment": ("<!-- hidden -->", "&lt;!-- hidden --&gt;"),
    "a frame": ("<iframe src='https://evil'></iframe>", "&lt;iframe"),
    "a link": ('[here](https://evil.example "a <title>")', "(https://evil.example &quot;a &lt;title&gt;&quot;)</span>"),
    "a link that runs": ("[here](javascript:alert(1))", '<u>here</u> <span class="md-url">(javascript:alert(1))</span>'),
    "a link in capitals": ("[here](JaVaScRiPt:alert(1))", "(JaVaScRiPt:alert(1))"),
    "a link of data": ("[x](data:text/html,<script>)", "data:text/html,&lt;script&gt;"),
    "an address between brackets": ("<https://evil.example/?q=1>", "<u>https://evil.example/?q=1</u></p>"),
    "a mail address between brackets": ("<a@evil.example>", "<u>a@evil.example</u></p>"),
    "an address alone": ("see https://evil.example/x now", "<p>see https://evil.example/x now</p>"),
    "a quote in an address": ('[x](https://e" onclick="alert)', "onclick=&quot;alert"),
    "entities": ("&lt;script&gt; &#60;img&#62; &amp;lt;b&amp;gt;", "&lt;script&gt; &lt;img&gt; &amp;lt;b&amp;gt;"),
    "a directive": (DIRECTIVES, f"<p>{DIRECTIVES}</p>"),
    "a formula": ("$a^2$ and $$\\frac{1}{2}$$", "<p>$a^2$ and $$\\frac{1}{2}$$</p>"),
    "a definition of a link": ("[x]: https://evil.example\n\n[x]", "[x]: https://evil.example"),
    "a language that is none": ('```"><img src=x>\ncode\n```', "<span>&quot;&gt;&lt;img src=x&gt;</span>"),
    "a diagram": ("```mermaid\ngraph TD\n```", '<pre class="ts-text">graph TD\n</pre>'),
    "a zero": ("a\x00b", "a\ufffdb"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_hostile_is_text(case: str) -> None:
    text, expected = HOSTILE[case]
    shown = render_answer(text)
    safe(shown)
    assert expected in shown, shown
    safe(render_growing(text))


@pytest.mark.parametrize(
    "text", ["> " * 500 + "deep inside", "\n".join("  " * n + "- level" for n in range(130)) + " deep inside"]
)
def test_what_nests_too_deep_is_shown_as_written(text: str) -> None:
    shown = render_answer(text)
    safe(shown)
    assert "deep inside" in shown
    assert shown.count("<blockquote") == shown.count("<ul") == 0


def test_what_nests_less_deep_is_shown_whole() -> None:
    shown = render_answer("\n".join("  " * n + f"- level {n}" for n in range(DEEP // 2 - 1)))
    assert all(f"level {n}" in shown for n in range(DEEP // 2 - 1))
    assert shown.count("<ul") == DEEP // 2 - 1


def test_a_long_answer_is_cut_with_a_word_about_it_and_the_newest_part_of_a_coming_one_is_shown() -> None:
    text = "".join(f"Line {n} of **many**.\n\n" for n in range(50_000))
    shown = render_answer(text)
    safe(shown)
    assert f"… {len(text) - LONG:,} more characters" in shown
    newest = render_growing(text)
    safe(newest)
    assert "Line 49999 of" in newest
    assert "characters before this" in newest
    assert len(newest) < 3 * LONG


def test_a_coming_answer_does_not_jump_between_what_its_last_line_may_become() -> None:
    text = "Intro:\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n\n## Head\n\n1. last"
    for end in range(1, len(text) + 1):
        shown = render_growing(text[:end])
        safe(shown)
        assert "role" not in shown or "Head"[: max(0, end - text.index("Head"))] in shown, text[
            :end
        ]  # "Intro:\n-" is no heading
        assert "<hr" not in shown, text[:end]
    inside = render_growing("```py\n" + "x = 1\n" * 20_000)
    assert inside.count("<pre") == 1, "what is cut amid a block of code is still code"
    assert "<p>x" not in inside


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize(
    "text",
    [
        "[" * LONG,
        "*a **b " * (LONG // 7),
        "|\n" * (LONG // 2),
        "`" * LONG,
        "\n" * LONG + "x",
        "<" * LONG,
        "![" * (LONG // 2),
        "*_" * (LONG // 2),
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """Seconds of this thread's own; an ordinary answer of that length takes a few milliseconds."""
    began = time.thread_time()
    safe(render_answer(text * 2))
    render_growing(text * 2)
    assert time.thread_time() - began < 5
