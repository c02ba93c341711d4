"""Every path has its answer for each user, also if the broker does not answer."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server is not installed: pip install 'tamis[server]'")

from tamis.web.auth import AuthError
from tamis.web.broker_link import BrokerBusyError, BrokerGoneError, RefusedError
from tamis.web.routes import application, with_query
from tests.web.asgi import get

PATHS = ["/metrics", "/api/overview", "/api/queues", "/api/exchanges", "/api/bindings", "/api/connections"]
PATHS += ["/api/consumers", "/api/streams", "/api/mailboxes", "/api/services"]


class FakeLink:
    """A broker with 250 of everything."""

    def __init__(self, status: str = "ok", error: Exception | None = None) -> None:
        self.status = status
        self.error = error
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def overview(self) -> dict[str, Any]:
        if self.error:
            raise self.error
        about = {"version": "1", "now_us": 5_000_000}
        return {"about": about, "health": {"status": self.status}, "metrics": {"queues": 250}}

    async def ask(self, op: str, **parameters: Any) -> Any:
        if self.error:
            raise self.error
        self.asked.append((op, parameters))
        offset, limit = parameters["offset"], parameters["limit"]
        rows = [{"name": f"q{n}", "since_us": 1_000_000} for n in range(offset, min(250, offset + limit))]
        return {"rows": rows, "total_count": 250}


class Open:
    async def authenticate(self, authorization: str | None, address: str, role: str) -> str:
        assert (address, role) == ("127.0.0.1", "monitoring")
        return "ann"


class Closed:
    def __init__(self, status: int) -> None:
        self.status = status

    async def authenticate(self, authorization: str | None, address: str, role: str) -> str:
        raise AuthError(self.status, "not you")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_nobody_gets_in_without_the_gate_and_the_broker_is_not_asked(path: str, status: int) -> None:
    link = FakeLink()
    answer = get(application(link, Closed(status)), path)
    assert (answer.status, answer.json()) == (status, {"error": "not you"})
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert link.asked == []


@pytest.mark.parametrize(("status", "code"), [("ok", 200), ("blocked", 503), ("stopping", 503), ("failed", 503)])
def test_health_is_for_everybody_and_says_no_more_than_it_must(status: str, code: int) -> None:
    answer = get(application(FakeLink(status), Closed(401)), "/health")
    assert (answer.status, answer.json()) == (code, {"status": status})


@pytest.mark.parametrize("error", [BrokerGoneError(), BrokerBusyError()])
def test_a_broker_that_does_not_answer_is_unhealthy(error: Exception) -> None:
    answer = get(application(FakeLink(error=error), Open()), "/health")
    assert (answer.status, answer.json()) == (503, {"status": "unreachable"})


@pytest.mark.parametrize("path", ["/api/queues", "/api/exchanges"])
def test_a_list_is_filtered_by_name(path: str) -> None:
    app = application(FakeLink(), Open())
    answer = get(app, f"{path}?name=q17").json()
    assert ([row["name"] for row in answer["rows"]], answer["total_count"], answer["next"]) == (["q17"], 1, None)
    assert get(app, f"{path}?name=q249").json()["total_count"] == 1
    assert get(app, f"{path}?name=q2").json()["total_count"] == 1
    assert get(app, f"{path}?name=none").json()["rows"] == []
    assert get(app, f"{path}?name=q17&offset=1").json()["rows"] == []


@pytest.mark.parametrize(("path", "known"), [("queues", "name, vhost"), ("connections", "limit")])
def test_a_parameter_that_would_be_ignored_is_refused(path: str, known: str) -> None:
    link = FakeLink()
    answer = get(application(link, Open()), f"/api/{path}?nmae=q17")
    assert answer.status == 400
    assert "unknown parameter 'nmae'; known: offset, limit" in answer.json()["error"]
    assert known in answer.json()["error"]
    assert link.asked == []


def test_lists_come_page_by_page() -> None:
    link = FakeLink()
    app = application(link, Open())
    page, names = "/api/queues?limit=99", []
    while page:
        answer = get(app, page).json()
        assert answer["total_count"] == 250
        names += [row["name"] for row in answer["rows"]]
        page = answer["next"]
    assert names == [f"q{n}" for n in range(250)]
    assert link.asked == [("queues", {"offset": offset, "limit": 99}) for offset in (0, 99, 198)]


def test_a_page_is_never_larger_than_it_may_be() -> None:
    link = FakeLink()
    assert get(application(link, Open()), "/api/queues?limit=1000000").json()["limit"] == 500
    assert get(application(link, Open()), "/api/queues").json()["limit"] == 100
    assert get(application(link, Open()), "/api/queues?offset=300").json()["next"] is None


NO_NUMBERS = ["limit=x", "limit=0", "limit=-1", "offset=1.5", "offset=%D9%A3", "offset=" + "9" * 17]


@pytest.mark.parametrize("query", NO_NUMBERS)
def test_what_is_no_number_is_said(query: str) -> None:
    answer = get(application(FakeLink(), Open()), f"/api/queues?{query}")
    assert answer.status == 400
    assert "expected a whole number from" in answer.json()["error"]


def test_connections_tell_how_long_they_are_open() -> None:
    row = get(application(FakeLink(), Open()), "/api/connections?limit=1").json()["rows"][0]
    assert row == {"name": "q0", "open_s": 4.0}


def test_a_binding_shows_its_query_as_text() -> None:
    shown = with_query({"source": "e", "arguments": {"x-query": "price > 10"}})
    assert (shown["query"], shown["query_language"], shown["query_body"]) == ("price > 10", "selector", "none")
    shown = with_query({"arguments": {"x-query": "a", "x-query-language": "boolean", "x-query-body": "json"}})
    assert (shown["query"], shown["query_language"], shown["query_body"]) == ("a", "boolean", "json")
    shown = with_query({"arguments": {"x-query-key": "frost"}})
    assert (shown["query"], shown["query_key"]) == (None, "frost")
    assert with_query({"arguments": {}})["query"] is None


def test_names_from_clients_are_harmless_in_a_page() -> None:
    class Evil(FakeLink):
        async def ask(self, op: str, **parameters: Any) -> Any:
            return {"rows": [{"name": "<script>alert('1')</script>&\u2028\ud800"}], "total_count": 1}

    answer = get(application(Evil(), Open()), "/api/queues")
    assert not any(character in answer.body for character in (b"<", b">", b"&", b"\xe2\x80\xa8"))
    assert answer.json()["rows"][0]["name"].startswith("<script>alert('1')</script>&\u2028")
    assert answer.headers["content-type"] == "application/json"


def test_every_answer_forbids_to_keep_it_and_to_guess_its_type() -> None:
    for path in ("/health", "/api/queues", "/nothing"):
        headers = get(application(FakeLink(), Open()), path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    ("error", "status"), [(BrokerGoneError(), 503), (BrokerBusyError(), 503), (RefusedError("no such list"), 502)]
)
def test_what_the_broker_does_not_answer_is_said(error: Exception, status: int) -> None:
    answer = get(application(FakeLink(error=error), Open()), "/api/queues")
    assert answer.status == status
    assert "broker" in answer.json()["error"]


def test_metrics_say_that_the_broker_is_gone() -> None:
    answer = get(application(FakeLink(error=BrokerGoneError()), Open()), "/metrics")
    assert (answer.status, b"tamis_up 0.0" in answer.body) == (200, True)


def test_other_paths_and_methods_are_refused() -> None:
    app = application(FakeLink(), Open())
    assert get(app, "/api/nothing").status == 404
    assert "/api/queues" in get(app, "/").json()["error"]
    for path in ["/health", *PATHS]:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert get(app, path, method).status == 405
