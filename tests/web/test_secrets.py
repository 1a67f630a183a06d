"""Texts that repeat a secret, as it is or written otherwise."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from hpabatch.web.secrets import (
    Secrets,
    bare_url,
    basic,
    secrets_of_options,
    secrets_of_url,
)

TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6Ii0ifQ.eyJzdWIiOiJ0ZXN0LW5vYm9keSJ9.c2lnbmF0dXJl-_" * 3
PASSWORD = "pass word+with/%41&\"ümlaut'\\"
SECRETS = Secrets([PASSWORD])
SECRETS.note(f"Bearer {TOKEN}")
SECRETS.note("Basic " + base64.b64encode(b"jo:swordfish99").decode())

Written = Callable[[str], str]


def plain(text: str) -> str:
    return text


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def for_urls_in_base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def in_base64_with_its_name(text: str) -> str:
    return in_base64(f"Authorization: Bearer {text}\r\n")


def all_percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def as_json(text: str) -> str:
    return json.dumps(text)


def as_go_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("&", "\\u0026").replace("<", "\\u003c")


def as_go_html(text: str) -> str:
    return html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def as_go_userinfo(text: str) -> str:
    return quote(text, safe="$&+,;=")


WRITTEN: list[Written] = [
    plain, in_base64, for_urls_in_base64, in_base64_with_its_name, quote, quote_plus, all_percent,
    as_json, html.escape, as_go_json, as_go_html, as_go_userinfo,
]  # fmt: skip


@pytest.mark.parametrize("secret", [TOKEN, PASSWORD, "swordfish99"], ids=["token", "pass", "basic"])
@pytest.mark.parametrize("written", WRITTEN, ids=lambda one: one.__name__)
def test_forms_of_a_secret(secret: str, written: Written) -> None:
    told = f"the gateway got [{written(secret)}] and refused"
    hidden = SECRETS.hide(told)
    assert hidden.startswith("the gateway got [")
    assert hidden.endswith("] and refused")
    assert "***" in hidden
    assert len(hidden) < 90
    assert secret[:12] not in hidden


@pytest.mark.parametrize(
    ("told", "hidden"),
    [
        (f"half of it: {TOKEN[:30]}", "half of it: ***"),
        (f"the middle: {TOKEN[40:70]} of it", "the middle: *** of it"),
        (f"cut off: {TOKEN[:7]}", "cut off: ***"),
        (f"two: {TOKEN} {TOKEN}", "two: *** ***"),
        (f"{TOKEN[:50]}\n> {TOKEN[50:]}", "***\n> ***"),
        ("jo:swordfish99@proxy", "jo:***@proxy"),
        ("Bearer", "Bearer"),
        ("", ""),
    ],
)  # fmt: skip
def test_parts_of_a_secret(told: str, hidden: str) -> None:
    assert SECRETS.hide(told) == hidden


def test_texts_without_a_secret_stay() -> None:
    dice = random.Random(1)
    assert SECRETS.hide("100% sure &amp; %zz is %41\n") == "100% sure &amp; %zz is %41\n"
    for _ in range(300):
        text = "".join(dice.choices(string.printable + "üß\x1b\x00", k=dice.randrange(80)))
        assert SECRETS.hide(text) == text
        assert Secrets().hide(text) == text


def test_short_secrets_are_hidden_whole() -> None:
    secrets = Secrets(["abc", "", None])
    assert secrets.hide("abc ab abcd") == "*** ab ***d"


def test_credentials_that_were_replaced_are_remembered_for_a_while() -> None:
    secrets = Secrets(["configured-password"])
    for number in range(1000):
        secrets.note(f"Bearer token-number-{number:04}-of-many")
    told = secrets.hide("token-number-0999-of-many, token-number-0995-of-many, configured-password")
    assert told == "***, ***, ***"
    assert len(secrets._carried) < 20


def test_nothing_shows_in_repr() -> None:
    assert TOKEN not in repr(SECRETS)
    assert "***" not in repr(SECRETS)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://jo:swordfish@proxy:3128/", {"swordfish", *basic("jo", "swordfish")}),
        ("jo:sw/ord@proxy:3128", {"sw/ord", *basic("jo", "sw/ord")}),
        ("http://jo:sw%40rd@proxy", {"sw%40rd", *basic("jo", "sw@rd")}),
        ("http://jo@proxy", set()),
        ("http://token-of-jo-1@proxy", {"token-of-jo-1", *basic("token-of-jo-1", "")} - {""}),
        ("http://proxy:3128", set()),
        (None, set()),
    ],
)
def test_secrets_of_urls(url: str | None, found: set[str]) -> None:
    assert secrets_of_url(url) == found


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("http://jo:swordfish@proxy:3128", "http://proxy:3128"),
        ("http://jo:sw/or@d@proxy", "http://proxy"),
        ("proxy:3128", "://proxy:3128"),
    ],
)
def test_urls_without_users(url: str, bare: str) -> None:
    assert bare_url(url) == bare


def test_secrets_of_options() -> None:
    words = [
        "get",
        "--client-secret",
        "swordfish",
        "--token=trout-1",
        "--verbose",
        "--api-key",
        "x",
    ]
    found = secrets_of_options(words, {"AWS_SECRET_ACCESS_KEY": "pike-pike", "REGION": "europe"})
    assert found == {"swordfish", "trout-1", "pike-pike"}


def test_a_long_text_takes_a_short_time() -> None:
    """Work is linear in the text: no expression goes back over it."""
    for text in ("%41" * 5000, "\\" * 16_000, "&#x4" * 4000, " " * 16_000, TOKEN[:11] * 1400):
        assert isinstance(SECRETS.hide(text), str)
