"""Login at a server: options and variables, what they exclude; no secret is ever shown."""

from __future__ import annotations

import base64
import os
import pickle
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.login import Login, server_url
from hpabatch.importers.prometheus.client.login import read_login as login_of
from hpabatch.importers.prometheus.request import PASSWORD_VARIABLE, TOKEN_VARIABLE, LoginOptions
from hpabatch.web.secrets import Secrets
from tests.importers.prometheus.certificates import Authority

SECRET = "s3cr3t-Zx9"


def file(folder: Path, text: str | bytes, name: str = "secret") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read_login(environ: Any, **options: Any) -> Login:
    return login_of(environ, LoginOptions.of(options))


def refused(*, environ: Any = None, **options: Any) -> str:
    """Return the error of options, with all that Python would show of it."""
    with pytest.raises(UsageError) as caught:
        read_login(environ or {}, **options)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__cause__)
    assert SECRET not in shown
    return str(caught.value)


def test_a_token_of_a_file_or_of_the_environment(tmp_path: Path) -> None:
    path = file(tmp_path, f"  {SECRET}\n")
    for login in (read_login({}, token_file=path), read_login({TOKEN_VARIABLE: f"{SECRET}\n"})):
        assert login.request_headers() == {"Authorization": f"Bearer {SECRET}"}
    both = read_login({TOKEN_VARIABLE: "other"}, token_file=path)
    assert both.token == SECRET, "an option goes before"
    assert read_login({TOKEN_VARIABLE: ""}).token is None


def test_a_user_with_a_password(tmp_path: Path) -> None:
    wanted = "Basic " + base64.b64encode(f"jo:{SECRET}".encode()).decode()
    path = file(tmp_path, f"{SECRET}\n")
    for login in (
        read_login({}, user="jo", password_file=path),
        read_login({PASSWORD_VARIABLE: SECRET}, user="jo"),
        read_login({PASSWORD_VARIABLE: "other"}, user="jo", password_file=path),
    ):
        assert login.request_headers() == {"Authorization": wanted}


def test_a_tenant() -> None:
    login = read_login({}, tenant="team-a|team-b")
    assert login.request_headers() == {"X-Scope-OrgID": "team-a|team-b"}


def test_what_is_missing_or_excludes_each_other(tmp_path: Path) -> None:
    token, password = file(tmp_path, SECRET), file(tmp_path, SECRET, "password")
    environ = {TOKEN_VARIABLE: SECRET, PASSWORD_VARIABLE: SECRET}
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"user": "jo", "token_file": token, "password_file": password}, "exclude each other"),
        ({"user": "jo", "environ": environ}, f"{TOKEN_VARIABLE} and --user jo exclude"),
        ({"user": "jo"}, "has no password: name a file"),
        ({"password_file": password}, "a password without a user; add --user"),
        ({"environ": {PASSWORD_VARIABLE: SECRET}}, f"{PASSWORD_VARIABLE} holds a password"),
        ({"user": "j:o", "password_file": password}, "has no colon"),
        ({"ca": token, "insecure": True}, "exclude each other"),
        ({"tenant": ""}, "--tenant: the value is empty"),
        ({"tenant": "a\nb"}, "--tenant: the value is empty"),
        ({"environ": {TOKEN_VARIABLE: f"{SECRET} {SECRET}"}}, "no token has"),
        ({"environ": {TOKEN_VARIABLE: f"{SECRET}ü"}}, "no token has"),
        ({"environ": {TOKEN_VARIABLE: " "}}, "is empty"),
    )
    for options, told in cases:
        assert told in refused(**options)


@pytest.mark.parametrize("option", ["token_file", "password_file", "ca"])
def test_files_that_cannot_be_read(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(path: Path) -> str:
        return refused(**{option: path})

    absent, secret = tmp_path / "absent", file(tmp_path, b"x")
    assert f"{absent} does not exist" in told(absent)
    assert "cannot be read: Is a directory" in told(tmp_path)
    with monkeypatch.context() as patch:

        def forbidden(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        patch.setattr(os, "open", forbidden)
        assert "may not be read by this user" in told(secret)
    assert "another file?" in told(file(tmp_path, b"x" * (4 * 2**20 + 1)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        (b"\xff\xfe" + SECRET.encode(), "no text"),
        (f"{SECRET}\n{SECRET}\n", "on one line"),
        (f"{SECRET}\0", "on one line"),
    ],
)
def test_files_that_hold_no_secret(tmp_path: Path, text: str | bytes, told: str) -> None:
    path = file(tmp_path, text)
    assert told in refused(token_file=path)
    assert told in refused(user="jo", password_file=path)


def test_an_authority(tmp_path: Path) -> None:
    login = read_login({}, ca=Authority(tmp_path).ca)
    assert login.tls().cert_store_stats()["x509_ca"] == 1
    assert "holds no certificates" in refused(ca=file(tmp_path, SECRET))
    assert "holds no certificates" in refused(ca=file(tmp_path, ""))
    assert not read_login({}, insecure=True).tls().check_hostname


def test_no_secret_is_shown(tmp_path: Path) -> None:
    path = file(tmp_path, SECRET)
    for login in (
        read_login({}, token_file=path),
        read_login({TOKEN_VARIABLE: SECRET}),
        read_login({}, user="jo", password_file=path),
    ):
        basic = base64.b64encode(f"jo:{SECRET}".encode()).decode()
        for shown in (repr(login), str(login), f"{[login]}"):
            assert SECRET not in shown
            assert basic not in shown
        echoed = f"refused: {login.request_headers()!r} of {SECRET if login.user else ''}"
        hidden = Secrets(login.secrets()).hide(echoed)
        assert SECRET not in hidden
        assert basic not in hidden
        assert "***" in hidden
        assert pickle.loads(pickle.dumps(login)) == login
        assert SECRET in str(asdict(login)), "only repr hides: nobody stores a login"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://prom:9090", "http://prom:9090"),
        (" http://prom:9090/ ", "http://prom:9090"),
        ("http://prom:9090/api/v1", "http://prom:9090"),
        ("https://mimir/prometheus/api/v1/", "https://mimir/prometheus"),
        ("http://vm:8481/select/0/prometheus/", "http://vm:8481/select/0/prometheus"),
        ("http://[::1]:9090", "http://[::1]:9090"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    assert server_url(given) == url


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (f"http://jo:{SECRET}@prom:9090", "holds a user or a password"),
        (f"http://{SECRET}@prom", "holds a user or a password"),
        (f"jo:{SECRET}@prom", "holds a user or a password"),
        (f"http://jo:{SECRET}@prom:port", "holds a user or a password"),
        (f"http://prom/?token={SECRET}", "ends before the question mark"),
        (f"http://prom/#{SECRET}", "ends before the question mark"),
        ("prom:9090", "is no address"),
        ("", "is no address"),
        ("ftp://prom", "is no address"),
        ("http://", "is no address"),
        ("http://prom:99999", "is no address"),
        ("http://[::1", "is no address"),
        ("http://prom/api/v1/query", "give what comes before /api/v1"),
        ("http://prom/a b", "give what comes before /api/v1"),
    ],
)
def test_addresses_that_are_none(given: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        server_url(given)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
