"""Promise (S8): the console shows what a store has, live; what records say is text, never run."""

from __future__ import annotations

import re

import httpx2
import pytest

from strandline.server import console
from tests.server.browser import browser
from tests.server.running import running

LINKS = "[...document.querySelectorAll('tbody a')].map((a) => a.innerText).join()"
MARKUP = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


@pytest.fixture
def server(tmp_path):
    with running(tmp_path / "data") as found:
        yield found


@pytest.fixture
def page(tmp_path):
    with browser(tmp_path / "chromium") as found:
        yield found


def test_every_file_is_served_with_a_policy_that_lets_nothing_else_in(server):
    for path in ("/", *(f"/console/{name}" for name in console.files())):
        answer = httpx2.get(server.url + path)

        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == console.POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/console/nothing.js", "/console/..%2Fstore.py", "/console/"])
def test_what_is_no_file_of_the_console_is_not_there(server, path):
    assert httpx2.get(server.url + path).status_code == 404


UNSAFE = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(")
ELSEWHERE = re.compile(r"//(?!www\.w3\.org/2000/svg)[a-z0-9-]+\.[a-z]")


def test_no_file_makes_markup_of_text_or_names_another_server():
    for name, content in console.files().items():
        lines = content.decode().splitlines()
        found = [line for line in lines if UNSAFE.search(line) or ELSEWHERE.search(line)]
        assert found == [], name
    page = console.files()["index.html"].decode()
    assert "style=" not in page
    assert not re.search(r"\son[a-z]+=", page)


def test_a_topic_is_shown_live_and_its_markup_is_text(server, page):
    topic = server.store.topic("orders")
    topic.append(b'{"a":1}', tag="eu")

    page.go(f"{server.url}/#/topics/orders")
    page.wait_for("document.body?.innerText?.includes('Live, at 1')")
    topic.append([MARKUP.encode(), b'"%s"' % MARKUP.replace('"', "'").encode()], tag=MARKUP)
    page.wait_for("document.querySelectorAll('tbody tr').length === 3")

    assert page.value("document.querySelectorAll('tbody img, tbody script').length") == 0
    assert page.value("document.title") == "Strandline"
    assert "<img src=x" in page.value("document.querySelector('tbody').innerText")
    assert page.complaints == []


def test_pages_lead_to_each_other(server, page):
    server.store.queue("jobs").put(b'{"do":"it"}')
    server.store.run('DEFINE visit FIELDS {n: "int"}')
    server.store.run('STORE visit FOR u PAYLOAD {"n": 7}')

    page.go(server.url)
    page.wait_for("document.body?.innerText?.includes('Background jobs')")
    page.value("location.hash = '#/queues'")
    page.wait_for('document.body?.innerText?.includes(\'{"do":"it"}\')')
    page.value("location.hash = '#/topics'")
    page.wait_for(f"{LINKS} .includes('visit')")
    page.value("location.hash = '#/ask'")
    page.wait_for("!!document.getElementById('question')")
    page.value("document.getElementById('question').value = 'QUERY visit TOTAL n'")
    page.value("document.querySelector('main form').requestSubmit()")

    assert page.wait_for("document.querySelector('tbody td')?.innerText") == "7"
    assert page.complaints == []


def test_a_mistake_is_shown_with_its_place(server, page):
    page.go(f"{server.url}/#/ask")
    page.wait_for("!!document.getElementById('question')")

    page.value("document.getElementById('question').value = 'QUERY nothing'")
    page.value("document.querySelector('main form').requestSubmit()")

    shown = page.wait_for("document.querySelector('#problem:not([hidden])')?.innerText")
    assert "unknown event 'nothing'" in shown
