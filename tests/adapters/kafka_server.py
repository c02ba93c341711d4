"""Runs Kafka for tests: a real broker where Java and its jars can be had, else the mock cluster of librdkafka.

The broker is one process in KRaft mode on 127.0.0.1. Its jars come through the Ivy that PySpark brings, and must have
the digests of kafka_jars.txt."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.free_port import free_port
from tests.ivy import NoJarsError, jars, java, of_spark

USER, PASSWORD = "jane", "garlic"
START_S, STOP_S = 60, 20
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
LIST = Path(__file__).with_name("kafka_jars.txt")
FROM_SPARK = (
    *("scala-library", "scala-reflect", "jackson-core", "jackson-databind", "jackson-annotations", "slf4j-api"),
    *("log4j-api", "log4j-core", "log4j-slf4j2-impl", "lz4-java", "snappy-java", "zstd-jni", "commons-logging"),
)
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={folder}/keystore.pem
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=1000
"""


class NoKafkaError(Exception):
    """There is no real broker here; the text says why."""


class MockKafka:
    """The mock cluster of librdkafka, which lives in a producer. Topics have four partitions."""

    is_real = False

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self._producer.list_topics(timeout=20).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def create(self, *topics: str, partitions: int = 1) -> None:
        """Make topics; here the first message makes one."""
        del partitions
        for topic in topics:
            self._producer.list_topics(topic, timeout=20)

    def publish(self, topic: str, *values: bytes | None, partition: int = 0, **properties: Any) -> None:
        """Publish messages, and wait until they are there."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, **properties)
        assert self._producer.flush(20) == 0

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """Return the offset that a group has committed; negative if there is none."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        try:
            return int(consumer.committed([TopicPartition(topic, partition)], timeout=20)[0].offset)
        finally:
            consumer.close()


class RealKafka(MockKafka):
    """A broker in a process of its own, with a listener for anybody and one with TLS and passwords."""

    is_real = True

    def __init__(self, folder: Path) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self._classpath, self._folder = _classpath(), folder
        ports = {name: free_port() for name in ("plain", "secure", "controller")}
        authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        (folder / "keystore.pem").write_bytes(_keystore(authority.issue_cert("127.0.0.1")))
        (folder / "server.properties").write_text(PROPERTIES.format(folder=folder, **ports))
        self.servers, self.secure_servers = f"127.0.0.1:{ports['plain']}", f"127.0.0.1:{ports['secure']}"
        login = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        tool = ("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-S", login, "-c", "server.properties")
        assert self._java(*tool).wait(START_S) == 0, (folder / "log").read_text()
        self.start()
        client = {"bootstrap.servers": self.servers, "log_level": 0}
        self._producer, self.admin = Producer(client), AdminClient(client)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.process = self._java("kafka.Kafka", "server.properties")
        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0, "reconnect.backoff.max.ms": 100})
        until = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < until:
            with suppress(KafkaException):
                if client.list_topics(timeout=0.2).brokers:
                    return
        raise AssertionError(f"Kafka does not start:\n{(self._folder / 'log').read_text()[-4000:]}")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait(STOP_S)

    def create(self, *topics: str, partitions: int = 1) -> None:
        """Make topics."""
        from confluent_kafka.admin import NewTopic

        for done in self.admin.create_topics([NewTopic(name, partitions, 1) for name in topics]).values():
            done.result(20)

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._classpath)
        with (self._folder / "log").open("ab") as log:
            command = [java(), *options, *arguments]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder)


@contextmanager
def kafka_server(folder: Path) -> Iterator[MockKafka]:
    """A real broker in a folder; where there can be none, the mock cluster, and a word on stderr."""
    try:
        real = RealKafka(folder)
    except NoKafkaError as error:
        print(f"no real Kafka, so the tests use the mock cluster of librdkafka: {error}", file=sys.stderr)
        yield MockKafka()
        return
    try:
        yield real
    finally:
        real.stop()


def _classpath() -> str:
    """The jars of the broker, fetched where they are absent.

    Raises:
        NoKafkaError: they cannot be had, or differ from those that are expected.
    """
    try:
        java()
        own = jars(LIST, Path(sys.prefix) / "kafka")
        shared = of_spark(FROM_SPARK)
    except NoJarsError as error:
        raise NoKafkaError(str(error)) from error
    return os.pathsep.join(map(str, [*own, *shared]))


def _keystore(certificate: trustme.LeafCert) -> bytes:
    """The key, as Java reads it, and the certificates."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
