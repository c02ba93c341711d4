"""An adapter publishes its messages to a broker, and tells of each that the broker does not take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="Arrow is not installed: pip install 'tamis[arrow]'")

from tamis.config.publish import PublishConfig
from tamis.errors import AdapterError, ConfigError
from tamis.spark.publishing import Fields, Publication, _publish
from tests.broker.conftest import RunningBroker

COUNT = 1_200


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Return a broker that takes small messages only."""
    running = RunningBroker(tmp_path_factory.mktemp("broker"), config="[limits]\nmessage_bytes = 4096\n")
    yield running
    running.kill()


def publish(broker: RunningBroker, rows: list[Fields], **settings: str) -> list[str | None]:
    config = PublishConfig.model_validate({"url": f"amqp://127.0.0.1:{broker.port}/", **settings})
    return asyncio.run(_publish(Publication("inbox", config, None), rows))


def row(number: int, body: str = "text", error: str | None = None) -> Fields:
    return "mail.inbox", json.dumps({"number": number}), body, None, f"place {number}", error


def test_one_that_is_too_large_is_named_and_the_others_are_published(broker: RunningBroker) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("all", durable=True)
        channel.queue_bind("all", "amq.topic", "mail.#")
        large = {3, 4, 700}
        rows = [row(number, "x" * 5_000 if number in large else "text") for number in range(COUNT)]
        rows.append(row(COUNT, error="no message"))
        reasons = publish(broker, rows)
        assert {number for number, reason in enumerate(reasons) if reason is not None} == large
        for number in large:
            assert f"the broker does not take message place {number}" in (reasons[number] or "")
            assert "4096" in (reasons[number] or ""), "what the broker said"
        taken = [
            channel.basic_get("all", True)[1].headers["number"]
            for _ in range(channel.queue_declare("all", passive=True).method.message_count)
        ]
    assert set(taken) == set(range(COUNT)) - large


def test_an_exchange_that_is_not_there_fails_the_batch(broker: RunningBroker) -> None:
    with pytest.raises(AdapterError, match="nowhere"):
        publish(broker, [row(0)], exchange="nowhere")


def test_the_password_is_in_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.setenv("BUS_PASSWORD", "from the variable")
    url, file = "amqp://tamis@localhost/", str(tmp_path / "secret")

    def password(**settings: str) -> str | None:
        return PublishConfig.model_validate({"url": url, **settings}).password("inbox")

    assert password() is None
    assert password(password_env="BUS_PASSWORD") == "from the variable"
    assert password(password_file=file) == "from the file"
    with pytest.raises(ConfigError, match="adapter 'inbox': publish: expected password_env or password_file, not both"):
        password(password_env="BUS_PASSWORD", password_file=file)
