"""A small E-utilities server on the loopback interface: true answers, and every way to fail.

The shapes are those NCBI was seen to answer with; the records are invented.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

from clinical_envs.factcheck.corpus import Article, Section

KEY = "0123456789abcdef0123456789abcdef0123"
PMIDS = ("101", "102", "103", "104", "105")
COUNT = 1477
TRANSLATION = '"aspirin"[MeSH Terms] OR "aspirin"[All Fields]'

RECORDS = {
    "101": """<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM">
<PMID Version="1">101</PMID><Article PubModel="Print"><Journal>
<JournalIssue CitedMedium="Print"><PubDate><Year>2011</Year><Month>Mar</Month></PubDate>
</JournalIssue><Title>Invented Journal of Trials</Title></Journal>
<ArticleTitle>Aspirin and CO<sub>2</sub> in <i>IL-6</i> positive stroke.</ArticleTitle>
<Abstract><AbstractText Label="METHODS" NlmCategory="METHODS">We followed 412 adults &lt; 80
years.</AbstractText><AbstractText Label="RESULTS" NlmCategory="RESULTS">Aspirin did not reduce
mortality (HR 0.98, 95% CI 0.91-1.06).</AbstractText>
<CopyrightInformation>Copyright of nobody.</CopyrightInformation></Abstract>
<PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>
</PublicationTypeList></Article><MeshHeadingList><MeshHeading><DescriptorName UI="D001241"
MajorTopicYN="Y">Aspirin</DescriptorName><QualifierName UI="Q1">adverse effects</QualifierName>
</MeshHeading><MeshHeading><DescriptorName UI="D020521">Stroke</DescriptorName></MeshHeading>
</MeshHeadingList></MedlineCitation><PubmedData><ArticleIdList><ArticleId IdType="pubmed">101
</ArticleId></ArticleIdList><ReferenceList><Reference><ArticleIdList><ArticleId IdType="pubmed">
999</ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData></PubmedArticle>""",
    "102": """<PubmedArticle><MedlineCitation><PMID Version="2">102</PMID><Article><Journal>
<JournalIssue><PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue>
<Title>Letters</Title></Journal><ArticleTitle>TNF-α in children.</ArticleTitle><Abstract>
<AbstractText>TNF-α rose in 30 of 60 children.</AbstractText></Abstract></Article>
</MedlineCitation></PubmedArticle>""",
    "103": """<PubmedArticle><MedlineCitation><PMID Version="1">103</PMID><Article><Journal>
<JournalIssue><PubDate><Year>1987</Year></PubDate></JournalIssue><Title>Letters</Title></Journal>
<ArticleTitle>A letter without an abstract</ArticleTitle></Article></MedlineCitation>
</PubmedArticle>""",
    "104": """<PubmedBookArticle><BookDocument><PMID Version="1">104</PMID><Book><Publisher>
<PublisherName>Nobody</PublisherName></Publisher><BookTitle book="x">Invented Pearls</BookTitle>
<PubDate><Year>2024</Year></PubDate></Book><ArticleTitle>Stroke, a chapter</ArticleTitle>
<Abstract><AbstractText>Stroke is common.</AbstractText></Abstract></BookDocument>
</PubmedBookArticle>""",
    "105": """<PubmedArticle><MedlineCitation><PMID Version="1">105</PMID><Article><Journal>
<JournalIssue><PubDate><Season>Summer</Season></PubDate></JournalIssue><Title>Doubt</Title>
</Journal><ArticleTitle/><Abstract><AbstractText NlmCategory="BACKGROUND">Once believed.
</AbstractText><AbstractText>No longer.</AbstractText></Abstract><PublicationTypeList>
<PublicationType>Journal Article</PublicationType><PublicationType>Retracted Publication
</PublicationType></PublicationTypeList><VernacularTitle>Ein Titel.</VernacularTitle>
<ArticleDate DateType="Electronic"><Year>2019</Year></ArticleDate></Article></MedlineCitation>
</PubmedArticle>""",
}
ARTICLES = {
    "101": Article(
        pmid="101",
        title="Aspirin and CO2 in IL-6 positive stroke.",
        abstract=(
            Section(label="METHODS", text="We followed 412 adults < 80 years."),
            Section(
                label="RESULTS",
                text="Aspirin did not reduce mortality (HR 0.98, 95% CI 0.91-1.06).",
            ),
        ),
        mesh=("Aspirin", "Stroke"),
        year=2011,
        journal="Invented Journal of Trials",
    ),
    "102": Article(
        pmid="102",
        title="TNF-α in children.",
        abstract="TNF-α rose in 30 of 60 children.",
        year=1998,
        journal="Letters",
    ),
    "103": Article(pmid="103", title="A letter without an abstract", year=1987, journal="Letters"),
    "104": Article(
        pmid="104",
        title="Stroke, a chapter",
        abstract="Stroke is common.",
        year=2024,
        journal="Invented Pearls",
    ),
    "105": Article(
        pmid="105",
        title="[Retracted] Ein Titel.",
        abstract=(
            Section(label="BACKGROUND", text="Once believed."),
            Section(label="UNLABELLED", text="No longer."),
        ),
        year=2019,
        journal="Doubt",
    ),
}
_SET = """<?xml version="1.0" ?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" \
"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">
<PubmedArticleSet>
{}
</PubmedArticleSet>"""
_ERROR = """<?xml version="1.0" encoding="UTF-8" ?>
<!DOCTYPE eEfetchResult PUBLIC "-//NLM//DTD efetch 20131226//EN" \
"https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20131226/efetch.dtd">
<eFetchResult>
\t<ERROR>{}</ERROR>
</eFetchResult>"""
_OUTAGE = "Search Backend failed: Database is not supported: pubmed"
_RELAYED = "proxy_stream(): Failed to connect to PubOne service; 502 Bad Gateway"


def records(pmids: Iterable[str]) -> bytes:
    """An EFetch answer."""
    return _SET.format("\n".join(RECORDS[p] for p in pmids if p in RECORDS)).encode()


def search_answer(**changes: object) -> bytes:
    """An ESearch answer."""
    result: dict[str, object] = {
        "count": str(COUNT),
        "retmax": "5",
        "retstart": "0",
        "idlist": list(PMIDS),
        "translationset": [],
        "querytranslation": TRANSLATION,
    }
    header = {"type": "esearch", "version": "0.3"}
    return json.dumps({"header": header, "esearchresult": result | changes}).encode()


class Failure(StrEnum):
    """A way in which an answer is none."""

    TOO_MANY = "429"
    TOO_MANY_WITH_PAUSE = "429 with Retry-After"
    RATE_IN_200 = "rate limit as JSON with 200, echoing the key"
    INTERNAL = "500"
    BAD_GATEWAY = "502 with HTML"
    HTML_200 = "HTML with 200"
    EMPTY_200 = "nothing with 200"
    ERROR_200 = "ERROR body with 200"
    ERROR_400 = "ERROR body with 400"
    RESET = "connection reset"
    CUT_BODY = "body shorter than announced"
    CUT_TEXT = "half a JSON or XML text"
    SLOW = "no answer in time"
    TRICKLE = "an answer that never ends"
    MISSING = "records left out"


@dataclass
class EutilsServer:
    """Failures come first, in their order, then the truth."""

    url: str = ""
    failures: deque[Failure] = field(default_factory=deque)
    forever: Failure | None = None
    answers: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def next_failure(self) -> Failure | None:
        """What goes wrong with the request at hand."""
        return self.forever or (self.failures.popleft() if self.failures else None)

    def truth(self, utility: str, form: dict[str, str]) -> bytes:
        """The answer when nothing goes wrong."""
        if utility in self.answers:
            return self.answers[utility]
        if utility == "esearch":
            limit = int(form["retmax"])
            return search_answer(idlist=list(PMIDS)[:limit], retmax=str(limit))
        return records(form["id"].split(","))


class _Handler(BaseHTTPRequestHandler):
    state: EutilsServer

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        utility = self.path.rsplit("/", 1)[-1].removesuffix(".fcgi")
        self.state.requests.append((utility, form))
        self._fail(self.state.next_failure(), self.state.truth(utility, form), utility, form)

    def _fail(
        self, failure: Failure | None, truth: bytes, utility: str, form: dict[str, str]
    ) -> None:
        key = form.get("api_key", "none")
        html = b"<!DOCTYPE html><html><body>WWW Error Diagnostic</body></html>"
        match failure:
            case None:
                self._answer(200, truth)
            case Failure.TOO_MANY | Failure.TOO_MANY_WITH_PAUSE:
                pause = {"Retry-After": "3"} if failure is Failure.TOO_MANY_WITH_PAUSE else {}
                self._answer(429, self._rate_limited(key), **pause)
            case Failure.RATE_IN_200:
                self._answer(200, self._rate_limited(key))
            case Failure.INTERNAL:
                self._answer(500, f"api_key={key}".encode())
            case Failure.BAD_GATEWAY:
                self._answer(502, html)
            case Failure.HTML_200:
                self._answer(200, html)
            case Failure.EMPTY_200:
                self._answer(200, b"")
            case Failure.ERROR_200 | Failure.ERROR_400:
                self._answer(
                    200 if failure is Failure.ERROR_200 else 400, self._error(utility, key)
                )
            case Failure.RESET:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
            case Failure.CUT_BODY:
                self._answer(200, truth[: len(truth) // 2], length=len(truth))
            case Failure.CUT_TEXT:
                self._answer(200, truth[: len(truth) // 2])
            case Failure.SLOW:
                self.state.stopped.wait(0.5)
                self._answer(200, truth)
            case Failure.TRICKLE:
                self._trickle()
            case Failure.MISSING:
                self._answer(200, records(()) if utility == "efetch" else truth)

    @staticmethod
    def _rate_limited(key: str) -> bytes:
        told = {"error": "API rate limit exceeded", "api-key": key, "count": "4", "limit": "3"}
        return json.dumps(told).encode()

    @staticmethod
    def _error(utility: str, key: str) -> bytes:
        if utility == "efetch":
            return _ERROR.format(f"{_RELAYED} api_key={key}").encode()
        return json.dumps({"esearchresult": {"ERROR": f"{_OUTAGE} api_key={key}"}}).encode()

    def _answer(self, status: int, body: bytes, length: int = -1, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length < 0 else length))
        for name, value in headers.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client has given up

    def _trickle(self) -> None:
        self.send_response(200)
        try:
            self.end_headers()
            while not self.state.stopped.wait(0.02):
                self.wfile.write(b" ")
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[EutilsServer]:
    """A server on a free port of the loopback interface."""
    state = EutilsServer()
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False  # so that closing waits for them
    state.url = f"http://127.0.0.1:{server.server_address[1]}/entrez/eutils"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()


class FakeClock:
    """Time that passes only while someone sleeps."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._lock = threading.Lock()
        self.sleeps: list[float] = []

    def now(self) -> float:
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds
            self.sleeps.append(seconds)


class SkippingClock(FakeClock):
    """Real time in which every sleep is skipped, so that an answer can take too long."""

    def now(self) -> float:
        return super().now() + time.monotonic()
