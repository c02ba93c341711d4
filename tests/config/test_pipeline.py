"""pipeline.toml is read, and mistakes in it are explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tamis.config.adapters import ADAPTERS
from tamis.config.deliveries import EmlDelivery, SmtpDelivery
from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.query import HierarchySpec

GOOD = """\
[pipeline]
name = "mail"
interval_ms = 100
[queries]
file = "queries.txt"
deliveries = ["outbox"]
[[adapter]]
name = "inbox"
type = "mbox"
path = "mail/"
topic = "mail.inbox"
[[delivery]]
name = "outbox"
type = "eml"
folder = "outbox"
to = "ann@example.org"
[[delivery]]
name = "server"
type = "smtp"
host = "localhost"
from = "tamis@example.org"
to = ["ann@example.org", "bob@example.org"]
[[test]]
message = { author = "James" }
match = ["james"]
"""


def _load(folder: Path, text: str) -> PipelineConfig:
    path = folder / "pipeline.toml"
    path.write_text(text)
    return PipelineConfig.load(path)


def _mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        _load(folder, text)
    return [line.removeprefix(f"{folder}/") for line in str(error.value).splitlines()]


def test_a_good_file_says_all_that_it_says(tmp_path: Path) -> None:
    config = _load(tmp_path, GOOD)
    assert config.path == tmp_path / "pipeline.toml"
    assert (config.pipeline.name, config.pipeline.interval_ms) == ("mail", 100)
    (adapter,) = config.adapters
    assert (adapter.name, adapter.type, adapter.topic) == ("inbox", "mbox", "mail.inbox")
    outbox, server = config.deliveries
    assert isinstance(outbox, EmlDelivery)
    assert outbox.recipients == ("ann@example.org",)
    assert isinstance(server, SmtpDelivery)
    assert (server.port, server.tls, server.tries) == (587, "starttls", 5)
    assert server.recipients == ("ann@example.org", "bob@example.org")
    assert config.default_deliveries == ("outbox",)
    assert (config.tests[0].message, config.tests[0].match) == ({"author": "James"}, ("james",))


@pytest.mark.parametrize(
    ("hierarchy", "expected"),
    [
        (
            'attribute = "g"\nparents = { a = "b" }',
            "line 4: parents: 'a': its parent 'b' is not a value of the hierarchy",
        ),
        ('attribute = "g"\nparents = { a = 5 }', "line 4: parents: 'a': expected its parent as text"),
        ('attribute = "g"\nparents = 5', "line 4: parents: expected a table"),
        ('attribute = "g"', "line 2: expected either 'parents' or 'file'"),
        ("parents = {}", "line 2: [[hierarchy]] needs 'attribute'"),
        ('attribute = "g"\nparent = {}', "line 4: unknown key 'parent' in [[hierarchy]]; did you mean 'parents'?"),
        (
            'attribute = "g"\nparents = {}\n[[hierarchy]]\nattribute = "g"\nparents = {}',
            "line 6: the hierarchy of 'g' is given",
        ),
    ],
)
def test_a_bad_hierarchy_is_refused_with_its_line(tmp_path: Path, hierarchy: str, expected: str) -> None:
    mistakes = _mistakes(tmp_path, f"[queries]\n[[hierarchy]]\n{hierarchy}\n")
    assert mistakes[0].startswith("pipeline.toml, ")
    assert expected in mistakes[0]


def test_a_hierarchy_stands_in_the_file_or_beside_it(tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text('{"a": "b", "b": null}')
    (tmp_path / "q.toml").write_text('[[hierarchy]]\nattribute = "h"\nfile = "tree.json"\n')
    text = '[queries]\nfile = "q.toml"\n[[hierarchy]]\nattribute = "g"\nfile = "tree.json"\n'
    own, queries = _load(tmp_path, text).query_files()
    assert own.hierarchies == (HierarchySpec("g", {"a": "b", "b": None}),)
    assert queries.hierarchies == (HierarchySpec("h", {"a": "b", "b": None}),)
    with pytest.raises(ConfigError, match=r"q.toml, line 2: the hierarchy of 'h' is already in .*pipeline.toml"):
        _load(tmp_path, text.replace('"g"', '"h"')).query_files()


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = _load(tmp_path, GOOD.replace('"outbox"\nto', '"/elsewhere/outbox"\nto'))
    assert config.store_path == tmp_path / "tamis.sqlite"
    assert config.pipeline.checkpoints == tmp_path / "checkpoints"
    assert config.queries.file == tmp_path / "queries.txt"
    assert config.adapters[0].path == tmp_path / "mail"
    assert config.deliveries[0].folder == Path("/elsewhere/outbox")  # type: ignore[union-attr]


def test_everything_has_a_default_but_what_it_is_about(tmp_path: Path) -> None:
    config = _load(tmp_path, "")
    assert (config.adapters, config.deliveries, config.queries.file) == ((), (), None)
    assert config.pipeline.interval_ms == 200


DELIVERIES = "store, eml, jsonl, smtp, webhook, amqp, feed, database, parquet, delta, chat"
TYPES = ", ".join(ADAPTERS)
MISTAKES = [
    (
        "path = ",
        "pth = ",
        "line 7: [[adapter]] needs 'path'",
        "line 10: unknown key 'pth' in [[adapter]]; did you mean 'path'?",
    ),
    ("[pipeline]", "[pipelin]", "line 1: unknown key 'pipelin'; did you mean 'pipeline'?"),
    ("[[adapter]]", "[[adaptor]]", "line 7: unknown key 'adaptor'; did you mean 'adapter'?"),
    (
        "folder",
        "floder",
        "line 12: [[delivery]] needs 'folder'",
        "line 15: unknown key 'floder' in [[delivery]]; did you mean 'folder'?",
    ),
    ("message =", "mesage =", "line 24: unknown key 'mesage' in [[test]]; did you mean 'message'?"),
    ('"mbox"', '"mbx"', f"line 9: unknown type 'mbx' in [[adapter]]; did you mean 'mbox'?; known: {TYPES}"),
    (
        '"smtp"',
        '"smpt"',
        f"line 19: unknown type 'smpt' in [[delivery]]; did you mean 'smtp'?; known: {DELIVERIES}",
    ),
    ('type = "eml"\n', "", f"line 12: [[delivery]] needs 'type': one of {DELIVERIES}"),
    ('["outbox"]', '["outbx"]', "line 6: no [[delivery]] is named 'outbx'; did you mean 'outbox'?"),
    ('"server"', '"outbox"', "line 18: the name 'outbox' is taken already"),
    ('"inbox"', "5", "line 8: name: expected text, not 5"),
    (
        '"inbox"',
        '"in/box"',
        "line 8: name: expected letters, digits, '_', '.' and '-', beginning with a letter or digit, not 'in/box'",
    ),
    (
        "= 100",
        '= 100\nnotifications = "results"',
        "line 13: [[delivery]] needs the outbox of the store, and 'notifications' in [pipeline] puts the results into "
        "Delta tables instead; leave one of them out",
    ),
    ("= 100", "= 0", "line 3: interval_ms: expected a number above 0, not 0"),
    ("= 100", "= -1", "line 3: interval_ms: expected a number above 0, not -1"),
    ("= 100", '= "100"', "line 3: interval_ms: expected a whole number, not '100'"),
    ("= 100", "= true", "line 3: interval_ms: expected a whole number, not True"),
    ("= 100", "= 1e9", "line 3: interval_ms: expected a whole number, not 1000000000.0"),
    ('match = ["james"]', 'match = "james"', "line 25: match: expected a list, not 'james'"),
    ("[[adapter]]", "[adapter]", "line 7: expected [[adapter]], not [adapter]"),
    (
        '"mbox"',
        '"mbox"\nbody_field = "text"',
        "line 10: 'body_field' is for adapters of type "
        "'jsonl', 'csv', 'http', 'amqp', 'amqp_stream' or 'kafka', not 'mbox'",
    ),
    ('"mbox"', '"mbox"\nquery_body = "json"', "line 10: 'query_body' is for adapters of type 'journal', not 'mbox'"),
    ('"mbox"', '"journal"\nquery_body = "xml"', "line 10: query_body: expected 'text' or 'json', not 'xml'"),
    (
        '"mbox"',
        '"journal"\nstarting_offset = "last"',
        "line 10: starting_offset: expected 'first', 'next' or a number from 1, not 'last'",
    ),
    (
        '"mbox"',
        '"journal"\nstarting_offset = 0',
        "line 10: starting_offset: expected 'first', 'next' or a number from 1, not 0",
    ),
    ('"localhost"', '"localhost"\nport = 70000', "line 21: port: expected a number of at most 65535, not 70000"),
    ('"localhost"', '"localhost"\nuser = "ann"', "line 21: 'user' and 'password_env' belong together"),
    (
        '"localhost"',
        '"mail.example.org"\ntls = "none"\nuser = "ann"\npassword_env = "P"',
        'line 22: a password for mail.example.org needs tls = "starttls" or "tls"',
    ),
    ('"localhost"', '"localhost"\nback_off_s = []', "line 21: back_off_s: expected at least one value, not []"),
    ('"localhost"', '"localhost"\nback_off_s = [0]', "line 21: back_off_s: expected a number above 0, not 0"),
    (
        '"tamis@example.org"',
        '"a@b\\nBcc: all@example.org"',
        "line 21: from: expected text on one line, not 'a@b\\nBcc: all@example.org'",
    ),
    ('"mail"', '"mail', "line 2, column 13: not TOML: illegal character '\\n'"),
]


@pytest.mark.parametrize(("there", "instead", "expected"), [(a, b, list(c)) for a, b, *c in MISTAKES])
def test_a_mistake_has_its_line_and_what_was_expected(
    tmp_path: Path, there: str, instead: str, expected: list[str]
) -> None:
    assert there in GOOD
    found = _mistakes(tmp_path, GOOD.replace(there, instead, 1))
    assert found == [f"pipeline.toml, {mistake}" for mistake in expected]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    assert len(_mistakes(tmp_path, GOOD.replace("path = ", "pth = ").replace("= 100", "= 0"))) == 3


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.toml: the configuration cannot be read: No such file"):
        PipelineConfig.load(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        PipelineConfig.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(ConfigError, match=r"latin.toml: expected UTF-8 text"):
        PipelineConfig.load(tmp_path / "latin.toml")


def test_a_password_may_go_to_this_machine_in_the_clear(tmp_path: Path) -> None:
    login = '"127.0.0.1"\ntls = "none"\nuser = "ann"\npassword_env = "P"'
    server = _load(tmp_path, GOOD.replace('"localhost"', login)).deliveries[1]
    assert isinstance(server, SmtpDelivery)
    assert server.port == 25


TWO_ADAPTERS = """\
[[adapter]]
name = "orders"
type = "jsonl"
path = "."
id_field = "id"
{first}
[[adapter]]
name = "users"
type = "http"
listen = "127.0.0.1:0"
token_file = "token"
id_field = "{member}"
{second}
"""


@pytest.mark.parametrize(
    ("member", "first", "second", "is_refused"),
    [
        ("id", "", "", True),
        ("id", 'id_space = "orders"', "", True),
        ("id", "", 'id_space = "users"', True),
        ("id", 'id_space = "orders"', 'id_space = "users"', False),
        ("id", 'id_space = "both"', 'id_space = "both"', False),
        ("number", "", "", False),
    ],
)
def test_adapters_with_one_id_field_say_whether_they_have_the_same_messages(
    tmp_path: Path, member: str, first: str, second: str, is_refused: bool
) -> None:
    text = GOOD + TWO_ADAPTERS.format(member=member, first=first, second=second)
    if not is_refused:
        assert len(_load(tmp_path, text).adapters) > 2
        return
    (mistake,) = _mistakes(tmp_path, text)
    assert "the adapters 'orders' and 'users' both have 'id'" in mistake
    assert "set 'id_space' in both" in mistake


TWO_FILES = """\
[[delivery]]
name = "one"
type = "jsonl"
path = "out/lines.jsonl"
[[delivery]]
name = "two"
type = "jsonl"
path = "{path}"
"""


@pytest.mark.parametrize(
    "path",
    ["out/lines.jsonl", "out/../out/lines.jsonl", "{folder}/out/lines.jsonl", "link.jsonl", "same/lines.jsonl"],
)
@pytest.mark.parametrize("exists", [False, True])
def test_two_deliveries_may_not_write_one_file(tmp_path: Path, path: str, exists: bool) -> None:
    (tmp_path / "out").mkdir()
    if exists:
        (tmp_path / "out" / "lines.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to("out/lines.jsonl")
    (tmp_path / "same").symlink_to("out")
    (mistake,) = _mistakes(tmp_path, TWO_FILES.format(path=path.format(folder=tmp_path)))
    assert mistake == (
        f"pipeline.toml, line 5: the deliveries 'one' and 'two' would both write the file "
        f"{tmp_path.resolve()}/out/lines.jsonl; give each a file of its own"
    )


def test_two_names_of_one_file_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "lines.jsonl").touch()
    (tmp_path / "hard.jsonl").hardlink_to(tmp_path / "out" / "lines.jsonl")
    (mistake,) = _mistakes(tmp_path, TWO_FILES.format(path="hard.jsonl"))
    assert "'one' and 'two' would both write the file" in mistake
    assert len(_load(tmp_path, TWO_FILES.format(path="other.jsonl")).deliveries) == 2


def test_two_deliveries_may_not_write_into_one_folder(tmp_path: Path) -> None:
    """A file is named after its notification, which both may deliver."""
    again = '[[delivery]]\nname = "again"\ntype = "eml"\nfolder = "./outbox"\n'
    (mistake,) = _mistakes(tmp_path, GOOD + again)
    assert mistake.startswith(
        "pipeline.toml, line 26: the deliveries 'outbox' and 'again' would both write the folder"
    ), mistake


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[pipeline]\nnotifications = "r"\nseen_messages = 5\n',
            "line 3: 'seen_messages' needs the outbox of the store",
        ),
        ("[pipeline]\nseen_messages = -1\n", "line 2: seen_messages: expected a number of at least 0, not -1"),
        (
            '[[adapter]]\nname = "a"\ntype = "mbox"\npath = "x"\nbody_field = "b"\n',
            "line 5: 'body_field' is for",
        ),
        (
            '[[delivery]]\nname = "a"\ntype = "smtp"\nhost = "h"\nfrom = "a"\nto = "b"\nuser = "u"\n',
            "line 7: 'user'",
        ),
        ('[[adapters]]\nname = "a"\n', "line 1: unknown key 'adapters'; did you mean 'adapter'?"),
        ("[[tests]]\nmatch = []\n", "line 1: unknown key 'tests'; did you mean 'test'?"),
        ('[[delivery]]\nname = "a"\ntype = "eml"\nfolder = "f"\nsender = "x"\n', "line 5: unknown key 'sender'"),
        (
            '[[adapter]]\nname = "a"\ntype = "mbox"\npath = "x"\nstop_words = "german"\n',
            "line 5: unknown key 'stop",
        ),
    ],
)
def test_a_mistake_is_told_with_its_own_line(tmp_path: Path, text: str, expected: str) -> None:
    (mistake,) = _mistakes(tmp_path, text)
    assert expected in mistake


def test_spark_is_on_this_machine_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    assert _with_spark(tmp_path, "").spark.is_local
    far = _with_spark(tmp_path, 'master = "spark://10.0.0.1:7077"\nhost = "10.0.0.5"\noptions = { "spark.a" = true }')
    assert (far.spark.is_local, far.spark.texts()) == (False, {"spark.a": "true"})
    near = _with_spark(tmp_path, "").with_master("spark://localhost:7077")
    assert (near.spark.master, near.path) == ("spark://localhost:7077", tmp_path / "pipeline.toml")


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (
            'master = "10.0.0.1:7077"',
            "line 2: master: expected local[N], spark://HOST:PORT, yarn or k8s://URL, not '10",
        ),
        (
            'master = "spark://a:7077"',
            "line 2: workers on other machines cannot connect to 127.0.0.1: set 'host' to an",
        ),
        (
            'options = { "executor.memory" = 1 }',
            "expected a setting of Spark, such as spark.executor.memory, not 'exec",
        ),
        ('mastr = "local"', "unknown key 'mastr' in [spark]; did you mean 'master'?"),
    ],
)
def test_a_mistake_in_spark_is_told_with_its_line(tmp_path: Path, section: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        _with_spark(tmp_path, section)


def test_a_master_that_workers_cannot_reach_is_refused(tmp_path: Path) -> None:
    for master in ("spark://a:7077", "somewhere"):
        with pytest.raises(ConfigError, match=r"^--master: (workers on other machines|master: expected)"):
            _with_spark(tmp_path, "").with_master(master)


def _with_spark(folder: Path, section: str) -> PipelineConfig:
    (folder / "pipeline.toml").write_text(f"[spark]\n{section}\n" if section else "")
    return PipelineConfig.load(folder / "pipeline.toml")
