"""Promise: a server's settings come from the file, the environment and the flags, the later wins,
and a mistake is one line that names the place, the setting and what is allowed."""

from __future__ import annotations

import msgspec
import pytest

from strandline.config.pipeline_config import DeclaredPipeline
from strandline.errors import Invalid
from strandline.server import config
from strandline.server.auth import listen_policy
from strandline.server.http.proxies import TrustedProxies
from strandline.server.settings import ServerSettings, TlsSettings

FILE = "strandline.toml"


def test_without_anything_the_defaults_count():
    assert config.settings_of() == ServerSettings()


def test_every_setting_can_be_set_in_the_file():
    whole = msgspec.to_builtins(ServerSettings())

    told = config.settings_of(file=(FILE, _toml(whole)))

    assert told == ServerSettings()


def test_every_setting_can_be_set_in_the_environment():
    changed = {name: _other(kind) for name, kind in config.names().items()}
    environment = {
        config.PREFIX + name.upper().replace(".", "__"): _text(value)
        for name, value in changed.items()
    }

    told = config.settings_of(environment=environment)

    assert {name: _at(told, name) for name in changed} == changed


def test_the_later_place_wins():
    file = (FILE, 'data = "of the file"\nbind = "127.0.0.1:1"\nlog_format = "json"')
    environment = {"STRANDLINE_DATA": "of the environment", "STRANDLINE_BIND": "127.0.0.1:2"}

    told = config.settings_of(file=file, environment=environment, flags={"bind": "127.0.0.1:3"})

    assert (told.log_format, told.data, told.bind) == ("json", "of the environment", "127.0.0.1:3")


def test_the_names_that_every_command_knows_keep_their_meaning():
    environment = {
        "STRANDLINE_STORE": "a/store",
        "STRANDLINE_STORE__WAL__SHARDS": "2",
        "STRANDLINE_LAKE_URL": "s3://lake",
        "STRANDLINE_VIEWS_URL": "s3://views",
        "PATH": "/bin",
    }
    names_of_others = ("URL", "TOKEN", "CONTEXT", "CONFIG", "BACKUPS", "DEBUG")
    environment |= {f"STRANDLINE_{name}": "1" for name in names_of_others}

    told = config.settings_of(environment=environment)

    assert told.data == "a/store"
    assert told.store.wal.shards == 2
    assert told.store.lake.url == "s3://lake"
    assert told.store.views.url == "s3://views"


def test_the_servers_own_name_for_the_data_wins_over_the_common_one():
    environment = {"STRANDLINE_STORE": "common", "STRANDLINE_DATA": "own"}

    assert config.settings_of(environment=environment).data == "own"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[limits]\nbody_byte_max = 1", "did you mean 'limits.body_bytes_max'"),
        ("body_bytes_max = 1", "did you mean 'limits.body_bytes_max'"),
        ("[wal]\nshards = 1", "did you mean 'store.wal.shards'"),
        ("limits = 1", "it is a group, written [limits]"),
        ("[nothing]", "there is no setting 'nothing'"),
        (
            "[limits]\nbody_bytes_max = 'much'",
            "limits.body_bytes_max is a whole number, not 'much'",
        ),
        ("[limits]\nbody_bytes_max = 1.5", "limits.body_bytes_max is a whole number, not 1.5"),
        ("[limits]\nbody_bytes_max = -1", "is a number from 0 up, not -1"),
        ("[limits]\nreceive_s_max = 0", "is more than 0"),
        ("[limits]\nidle_s_max = inf", "is a number from 0 up, not inf"),
        ("behind_proxy = 1", "behind_proxy is true or false, not 1"),
        ("hosts = 'a'", "hosts is a list of texts, not 'a'"),
        ("log_format = 'xml'", "log_format is one of text, json, not 'xml'"),
        ("[store.segment]\ncompression = 'lz4'", "is one of none, zstd, not 'lz4'"),
        ("[limits\n", "line 1"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(text, told):
    with pytest.raises(Invalid) as caught:
        config.settings_of(file=(FILE, text))

    assert str(caught.value).startswith(FILE)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("STRANDLINE_LIMITS__BODY_BYTES", "1", "did you mean 'limits.body_bytes_max'"),
        ("STRANDLINE_BIN", "127.0.0.1:1", "did you mean 'bind'"),
        ("STRANDLINE_OTHER__THING", "1", "there is no setting 'other.thing'"),
        ("STRANDLINE_LIMITS__BODY_BYTES_MAX", "much", "is a whole number, not 'much'"),
        ("STRANDLINE_DRAIN_S", "soon", "is a number, not 'soon'"),
        ("STRANDLINE_BEHIND_PROXY", "perhaps", "is true or false, not 'perhaps'"),
    ],
)
def test_a_mistake_in_the_environment_is_told_with_its_name(variable, value, told):
    with pytest.raises(Invalid) as caught:
        config.settings_of(environment={variable: value})

    assert str(caught.value).startswith(variable)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("127.0.0.1:4000", ("127.0.0.1", 4000, "")),
        ("[::1]:0", ("::1", 0, "")),
        ("localhost:80", ("localhost", 80, "")),
        ("unix:some/where.sock", ("", 0, "some/where.sock")),
    ],
)
def test_an_address_of_this_machine_needs_nothing(bind, address):
    assert listen_policy.check_exposure(ServerSettings(bind=bind)) == address
    listen_policy.check_tokens(ServerSettings(bind=bind), has_tokens=False)


@pytest.mark.parametrize(
    "bind", ["4000", "localhost", "::1:4000", ":4000", "a:-1", "a:70000", "unix:"]
)
def test_what_is_no_address_is_refused(bind):
    with pytest.raises(Invalid, match="bind"):
        listen_policy.parse(bind)


@pytest.mark.parametrize("bind", ["0.0.0.0:4000", "[::]:4000", "10.0.0.1:4000", "example.org:4000"])
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "unencrypted"),
        ({"behind_proxy": True}, "trusted_proxies"),
        ({"tls": TlsSettings(certificate="c.pem")}, "both files"),
        ({"behind_proxy": True, "trusted_proxies": ("proxy",)}, "addresses or networks"),
    ],
)
def test_an_address_that_others_reach_needs_encryption(bind, more, told):
    with pytest.raises(Invalid, match=told):
        listen_policy.check_exposure(ServerSettings(bind=bind, **more))


@pytest.mark.parametrize(
    "more",
    [
        {"tls": TlsSettings(certificate="c.pem", key="k.pem")},
        {"behind_proxy": True, "trusted_proxies": ("10.0.0.0/8",)},
    ],
)
def test_an_address_that_others_reach_needs_a_token_too(more):
    settings = ServerSettings(bind="0.0.0.0:4000", **more)

    listen_policy.check_exposure(settings)
    listen_policy.check_tokens(settings, has_tokens=True)

    with pytest.raises(Invalid, match="there is no token"):
        listen_policy.check_tokens(settings, has_tokens=False)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", [b"1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", [b"6.6.6.6, 1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        ("10.0.0.1", [b"6.6.6.6", b"1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", [b"1.2.3.4:5678"], "1.2.3.4"),
        ("10.0.0.1", [b"[2001:db8::1]:80"], "2001:db8::1"),
        ("10.0.0.1", [b"1.2.3.4, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [], "10.0.0.1"),
    ],
)
def test_the_client_is_the_last_that_no_trusted_proxy_vouches_for(peer, forwarded, client):
    proxies = TrustedProxies(["10.0.0.0/8"])

    told = proxies.client(peer, [(b"x-forwarded-for", value) for value in forwarded])

    assert proxies.trusts(peer)
    assert told == client


@pytest.mark.parametrize(
    ("trusted", "peer"), [([], "10.0.0.1"), ([], ""), (["10.0.0.1"], "10.0.0.2")]
)
def test_nobody_else_is_believed(trusted, peer):
    assert not TrustedProxies(trusted).trusts(peer)


def _toml(tree: dict[str, object], prefix: str = "") -> str:
    own = {name: value for name, value in tree.items() if not isinstance(value, dict)}
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in own.items()]
    text = "\n".join([f"[{prefix[:-1]}]" if prefix else "", *lines, ""])
    inner = {name: value for name, value in tree.items() if isinstance(value, dict)}
    return text + "".join(_toml(value, f"{prefix}{name}.") for name, value in inner.items())


def _other(kind: object) -> object:
    """A value that no default has."""
    if kind is bool:
        return True
    if kind is int:
        return 77
    if kind is float:
        return 77.5
    if kind == tuple[str, ...]:
        return ("a", "b")
    if kind == tuple[DeclaredPipeline, ...]:
        return (DeclaredPipeline(name="nightly", pipeline="compact", every="1d"),)
    return {"Literal['none', 'zstd']": "zstd"}.get(str(kind).replace("typing.", ""), "json")


def _text(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    if isinstance(value[0], DeclaredPipeline):
        return msgspec.json.encode(value).decode()
    return ",".join(value)


def _at(settings: object, name: str) -> object:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings
