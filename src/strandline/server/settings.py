"""What an operator may set of a server. Data only; the text under a field tells its price."""

from __future__ import annotations

import msgspec

from strandline.config.settings import GIB, KIB, MIB, Settings


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encryption. Both files, or neither."""

    certificate: str = ""
    """PEM file with the certificate and its chain."""

    key: str = ""
    """PEM file with its private key."""

    client_authority: str = ""
    """PEM file: who may sign clients' certificates. Empty asks for none."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one request, one client and all of them may take."""

    body_bytes_max: int = 64 * MIB
    """Largest body, packed and unpacked."""

    in_flight_bytes_max: int = 256 * MIB
    """Bytes of all requests that are being received or answered: bodies, packed and unpacked, and
    messages of WebSockets. One client gets half of it. At least four times ``body_bytes_max``."""

    header_bytes_max: int = 32 * KIB
    """All headers of a request together, its first line included."""

    headers_max: int = 100
    """How many of them."""

    json_depth_max: int = 64
    """How deep JSON of clients may be nested."""

    json_objects_max: int = 1_000_000
    """Objects and lists in one body of JSON: each takes up to 200 bytes when it is decoded."""

    batch_records_max: int = 10_000
    """Records in one append."""

    page_records_max: int = 1000
    """Records in one answer of ``diff``."""

    claim_max: int = 1000
    """Jobs in one claim, ack, nack or extend."""

    meta_bytes_max: int = 16 * KIB
    """Largest ``meta`` of one record."""

    meta_keys_max: int = 64
    """Most keys of a ``meta``."""

    watch_topics_max: int = 256
    """Topics in one watch session or subscription."""

    topics_max: int = 100_000
    """Topics that clients may make."""

    routers_max: int = 10_000
    """Routers that clients may make."""

    sessions_max: int = 10_000
    """Watch sessions that are kept."""

    streams_max: int = 10_000
    """Open SSE and WebSocket streams."""

    streams_per_token_max: int = 1000
    """The same, of one token."""

    connections_max: int = 20_000
    """Open connections."""

    connections_per_address_max: int = 10_000
    """The same, of one address."""

    in_flight_per_token_max: int = 1000
    """Requests of one token that are being answered."""

    queries_per_token_max: int = 4
    """Queries of one token, in SQL or as commands, that run at once; the next gets 429."""

    query_s_max: float = 30.0
    """How long a query may run, until its last row is sent. Longer: exports of more rows, and an
    endless query holds a place for as long."""

    query_bytes_max: int = 1 * GIB
    """Bytes of rows in one answer, as Arrow has them."""

    query_json_bytes_max: int = 64 * MIB
    """Bytes of an answer in JSON, which is held in memory; longer ones are for NDJSON or Arrow."""

    query_row_bytes_max: int = 16 * MIB
    """Bytes of one row of an answer of SQL."""

    query_columns_max: int = 1000
    """Columns of an answer of SQL."""

    sql_processes_max: int = 8
    """Queries in SQL that run at once, each in a process of its own; others wait. More than one
    token may run, so that one of them does not keep the others waiting."""

    sql_memory_bytes_max: int = 512 * MIB
    """Memory of one such process to calculate; half a gibibyte more is the most that it takes. A
    query that needs more fails, and nothing else."""

    sql_bytes_max: int = 256 * KIB
    """Longest text of SQL."""

    requests_per_s: float = 0.0
    """Requests of one token, or of one address without a token; 0 is no limit."""

    waiting_appends_max: int = 4096
    """Appends that may wait for a sync when the server is pressed, then appends get 429."""

    bytes_per_s: float = 0.0
    """Bytes of bodies and of their answers, of one token, or of one address without a token; 0 is
    no limit. Streams are not counted. What was sent at once may be more than a second's worth: then
    the next request waits."""

    failures_per_minute: int = 10
    """Wrong tokens from one address, then it is told to wait. Loopback is spared when it has the
    right one."""

    receive_s_max: float = 30.0
    """How long a request may take to arrive, from its first byte."""

    idle_s_max: float = 75.0
    """How long a connection may stay open between requests."""

    total_bytes_max: int = 0
    """Bytes of live records in the store, then appends are refused; 0 is no limit."""


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How records are pushed to watchers."""

    queue_frames_max: int = 1024
    """Frames that may wait for one slow watcher."""

    queue_bytes_max: int = 4 * MIB
    """The same in bytes."""

    grace_s: float = 5.0
    """How long a watcher's queue may be full before a lossy topic leaves records out."""

    patience_s: float = 30.0
    """How long it may be full before the stream is closed. The session stays."""

    session_s: float = 300.0
    """How long a watch session without a stream is kept."""

    recheck_s: float = 60.0
    """How often an open stream's token is looked at again; revoking closes it at once."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator may set of a server, in groups."""

    data: str = "strandline-data"
    """The directory of the store."""

    bind: str = "127.0.0.1:4000"
    """Address and port, or ``unix:PATH``. One that others can reach needs a token and TLS."""

    behind_proxy: bool = False
    """Whether a proxy in front encrypts; then a public bind needs no TLS of its own."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose ``X-Forwarded-For`` and ``-Proto`` are believed."""

    hosts: tuple[str, ...] = ()
    """Names under which the server may be asked, besides the address it is bound to."""

    origins: tuple[str, ...] = ()
    """Web origins that may ask, besides its own."""

    metrics_per_topic: bool = False
    """Whether metrics have a line for every topic: as many time series as there are topics."""

    log_format: str = "text"
    """``text`` for people, ``json`` for machines."""

    drain_s: float = 10.0
    """How long requests may take to end when the server goes down."""

    tls: TlsSettings = TlsSettings()
    """Encryption."""

    limits: RequestLimits = RequestLimits()
    """What requests may take."""

    live: LiveSettings = LiveSettings()
    """How records are pushed to watchers."""

    store: Settings = Settings()
    """The store's own settings."""
