"""Pages and issues that a question names: `@url example.org/page`, `@issue owner/name#12` or `@issue` with an issue's address.

They are read once for the question, and only if the user allows it. What comes back is data: a page becomes its text, without
scripts, controls and known keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from turnscope.envelope.context_items import LONGEST, ContextItem, Kind
from turnscope.errors import ProviderError
from turnscope.live.secrets import scrub
from turnscope.live.web_client import build_key_headers, clean_text, open_client
from turnscope.session.destination import parse_origin

ISSUES = "https://api.github.com"
MAX_PAGES = 4  # pages, and issues, of one question
MAX_MARKUP = 500_000  # characters of a page's source; what stands behind them is left out
_URL = re.compile(r"(?<![\w@])@url\s+[<(\"'`]*([^\s<>\"'`]+)")
_ISSUE = re.compile(
    r"(?<![\w@])@issue\s+(?:https?://[\w.:-]+/)?([\w-]+)/([\w.-]*\w[\w.-]*?)(?:#|/issues/|/pull/)(\d{1,9})(?!\d)", re.ASCII
)
_TEXTS = re.compile(r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|xhtml|javascript|yaml)", re.IGNORECASE)
_HIDDEN = ("script", "style", "noscript", "template", "svg", "iframe", "object")
_INLINE = ("a", "abbr", "b", "code", "em", "i", "kbd", "mark", "q", "s", "small", "span", "strong", "sub", "sup", "u", "var")


@dataclass(frozen=True, slots=True)
class PageReader:
    """Reads pages and issues. Called with a kind and a question, it returns those that the question names.

    Args:
        issues: Address of GitHub's API, or of a server that answers as it does.
        key: The token for issues, sent to this address alone; "" = none.
    """

    issues: str = ISSUES
    key: str = field(default="", repr=False)

    @property
    def origin(self) -> str:
        """Scheme, host and port of the server of issues; a token is typed for one origin."""
        return parse_origin(self.issues)

    def __call__(self, kind: Kind, question: str) -> Sequence[ContextItem]:
        """Return an item for each page or issue that a question names; one that is not read says why.

        Args:
            kind: The kind of items; others than pages and issues are not found here.
            question: The question.
        """
        if kind == "url":
            pages = dict.fromkeys(found.rstrip(".,;:!?)]}") for found in _URL.findall(question))
            return [_attempt(kind, _name_page(page), partial(read_page, page)) for page in [*pages][:MAX_PAGES]]
        if kind == "issue":
            issues = [*dict.fromkeys(_ISSUE.findall(question))][:MAX_PAGES]
            return [_attempt(kind, f"{place[0]}/{place[1]}#{place[2]}", partial(self.read_issue, *place)) for place in issues]
        return ()

    def read_issue(self, owner: str, name: str, number: str) -> ContextItem:
        """Return an issue with its comments, as far as one answer holds them.

        Args:
            owner: The owner of the repository.
            name: Its name.
            number: The issue's number.

        Raises:
            ProviderError: The issue is not there, or the server does not answer as it should.
        """
        _check(self.issues)
        headers = {"accept": "application/vnd.github+json", "user-agent": "turnscope"} | build_key_headers(self.key)
        place = f"{self.issues.strip().rstrip('/')}/repos/{owner}/{name}/issues/{number}"
        with open_client(self.issues, "the server of issues", headers, self.key) as client:
            issue = _parse_object(client.read("GET", place)[0])
            comments = _parse_rows(client.read("GET", f"{place}/comments")[0]) if issue.get("comments") else []
        texts = [_get_text(issue, "body") or "No description", *(_get_text(row, "body") for row in comments)]
        text = f"# GitHub Issue #{number} in {owner}/{name}\n\n" + "\n\n---\n\n".join(filter(None, texts))
        return ContextItem("issue", _get_text(issue, "title")[:300] or f"{owner}/{name}#{number}", text[:LONGEST])


def read_page(address: str) -> ContextItem:
    """Return a page as text, under its title and address.

    Args:
        address: The address; without a scheme it is `https`.

    Raises:
        ProviderError: The address is none, the page is not there, or it is no text.
    """
    address = address if re.match(r"[a-z][a-z0-9+.-]*://", address, re.IGNORECASE) else f"https://{address}"
    _check(address)
    accept = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.8"
    with open_client(address, "the page", {"accept": accept, "user-agent": "turnscope"}) as client:
        text, headers = client.read("GET", address)
    kind = headers.get("content-type", "text/plain")
    if not _TEXTS.match(kind):
        raise ProviderError(f"the page is no text: {clean_text(kind)[:80]}")
    title, text = parse_html(text) if "html" in kind.lower() else ("", text)
    name = " ".join(scrub(f"{title[:200]} {_name_page(address)}").split())
    return ContextItem("url", clean_text(name), clean_text(scrub(text)).strip()[:LONGEST] or "[the page has no text]")


def parse_html(source: str) -> tuple[str, str]:
    """Return the title and the visible text of a page. Blocks stand on lines of their own.

    Args:
        source: The page's source.
    """
    reader = _TextReader()
    reader.feed(source[:MAX_MARKUP])
    text = "\n".join(line.rstrip() for line in "".join(reader.texts).split("\n"))
    return " ".join("".join(reader.title).split()), text.strip("\n")


class _TextReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.title: list[str] = []
        self._hidden = ""  # the element whose text is not shown
        self._verbatim = False  # inside <pre>: spaces and lines stay

    def handle_starttag(self, tag: str, _attrs: Any) -> None:
        if not self._hidden and tag in (*_HIDDEN, "title"):
            self._hidden = tag
        self._verbatim |= tag == "pre"
        self._end_line(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        self._verbatim &= tag != "pre"
        self._end_line(tag)

    def handle_data(self, data: str) -> None:
        if self._hidden:
            self.title += [data] if self._hidden == "title" else []
            return
        text = data if self._verbatim else re.sub(r"\s+", " ", data)
        text = text if self._verbatim or not self._begins_line() else text.lstrip()
        self.texts += [text] if text else []

    def _end_line(self, tag: str) -> None:
        if tag not in _INLINE and not self._begins_line():
            self.texts.append("\n")

    def _begins_line(self) -> bool:
        return not self.texts or self.texts[-1].endswith("\n")


def _attempt(kind: Kind, name: str, read: Callable[[], ContextItem]) -> ContextItem:
    try:
        return read()
    except ProviderError as error:
        return ContextItem(kind, name, f"[not read: {error.what}]")


def _check(address: str) -> None:
    if not parse_origin(address):
        raise ProviderError("this is no web address", hint="Name one that begins with http:// or https://.")
    if "@" in urlsplit(address).netloc:
        raise ProviderError("the address holds a user's name or password", hint="Name it without.")


def _name_page(address: str) -> str:
    """Return an address without scheme and `www.`, and without what stands before the host."""
    return scrub(clean_text(re.sub(r"^(?:https?://)?(?:[^/@]*@)?(?:www\.)?", "", address, flags=re.IGNORECASE)))[:300]  # type: ignore[no-any-return]


def _parse_object(text: str) -> Mapping[str, Any]:
    value = _parse(text)
    if not isinstance(value, Mapping):
        raise ProviderError("the answer is no issue")
    return value


def _parse_rows(text: str) -> Iterator[Mapping[str, Any]]:
    value = _parse(text)
    return (row for row in value if isinstance(row, Mapping)) if isinstance(value, list) else iter(())


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ProviderError("the answer is no JSON") from None


def _get_text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return clean_text(scrub(value)).strip() if isinstance(value, str) else ""
