"""Settings of a server. Data only; the text under a field describes its effect and cost."""

from __future__ import annotations

import msgspec

from strandline.config.settings import GIB, KIB, MIB, Settings


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encryption. Set both files, or neither."""

    certificate: str = ""
    """PEM file with the certificate and its chain."""

    key: str = ""
    """PEM file with its private key."""

    client_authority: str = ""
    """PEM file with the authority of client certificates. Empty: clients need none."""


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one request, one client and all clients."""

    body_bytes_max: int = 64 * MIB
    """Largest body, compressed and decompressed."""

    in_flight_bytes_max: int = 256 * MIB
    """Bytes of all requests in progress: bodies, compressed and decompressed, and messages of
    WebSockets. One client gets half of it. At least four times ``body_bytes_max``."""

    header_bytes_max: int = 32 * KIB
    """All headers of a request together, its first line included."""

    headers_max: int = 100
    """Headers of a request."""

    json_depth_max: int = 64
    """Nesting depth of JSON from clients."""

    json_objects_max: int = 1_000_000
    """Objects and lists in one JSON body: each takes up to 200 bytes when decoded."""

    batch_records_max: int = 10_000
    """Records in one append."""

    page_records_max: int = 1000
    """Records in one response of ``diff``."""

    claim_max: int = 1000
    """Jobs in one claim, ack, nack or extend."""

    meta_bytes_max: int = 16 * KIB
    """Largest ``meta`` of one record."""

    meta_keys_max: int = 64
    """Most keys of a ``meta``."""

    watch_topics_max: int = 256
    """Topics in one watch session or subscription."""

    topics_max: int = 100_000
    """Topics that clients may create."""

    routers_max: int = 10_000
    """Routers that clients may create."""

    sessions_max: int = 10_000
    """Watch sessions."""

    streams_max: int = 10_000
    """Open SSE and WebSocket streams."""

    streams_per_token_max: int = 1000
    """Open SSE and WebSocket streams of one token."""

    connections_max: int = 20_000
    """Open connections."""

    connections_per_address_max: int = 10_000
    """Open connections of one address."""

    in_flight_per_token_max: int = 1000
    """Requests of one token in progress."""

    queries_per_token_max: int = 4
    """Queries of one token, in SQL or as commands, that run at once; the next gets 429."""

    query_s_max: float = 30.0
    """How long a query may run, until its last row is sent. Longer: larger exports, but an endless
    query occupies a thread for as long."""

    query_bytes_max: int = 1 * GIB
    """Bytes of rows in one result, in Arrow's format."""

    query_json_bytes_max: int = 64 * MIB
    """Bytes of a JSON result, which is held in memory; larger ones need NDJSON or Arrow."""

    query_row_bytes_max: int = 16 * MIB
    """Bytes of one row of an SQL result."""

    query_columns_max: int = 1000
    """Columns of an SQL result."""

    sql_processes_max: int = 8
    """SQL queries that run at once, each in its own process; others wait. Set it above
    ``queries_per_token_max``, so that one token cannot delay the others."""

    sql_memory_bytes_max: int = 512 * MIB
    """Memory for computation in one such process, which takes up to 512 MiB more in total. A query
    that needs more fails, without an effect on others."""

    sql_bytes_max: int = 256 * KIB
    """Largest SQL text."""

    requests_per_s: float = 0.0
    """Requests of one token, or of one address without a token; 0 for no limit."""

    waiting_appends_max: int = 4096
    """Appends that may wait for a sync under load; then appends get 429."""

    bytes_per_s: float = 0.0
    """Bytes of request and response bodies of one token, or of one address without a token; 0 for
    no limit. Streams are not counted. One request may exceed a second's worth: then later ones are
    rejected until the average is met."""

    failures_per_minute: int = 10
    """Wrong tokens from one address; then its requests get 429. Valid tokens from loopback are
    exempt."""

    receive_s_max: float = 30.0
    """How long a request may take to arrive, from its first byte."""

    idle_s_max: float = 75.0
    """How long a connection may stay open between requests."""

    total_bytes_max: int = 0
    """Bytes of live records in the store; beyond them appends are rejected; 0 for no limit."""


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How records are pushed to streams."""

    queue_frames_max: int = 1024
    """Frames that may wait for one slow stream."""

    queue_bytes_max: int = 4 * MIB
    """Bytes that may wait for one slow stream."""

    grace_s: float = 5.0
    """How long a stream's queue may be full before records of a lossy topic are skipped."""

    stalled_s_max: float = 30.0
    """How long the queue may be full before the stream is closed. The session stays."""

    session_s: float = 300.0
    """How long a watch session without a stream is kept."""

    recheck_s: float = 60.0
    """How often the token of an open stream is checked again; revoking closes it at once."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a server, in groups."""

    data: str = "strandline-data"
    """The directory of the store."""

    bind: str = "127.0.0.1:4000"
    """Address and port, or ``unix:PATH``. A public address needs a token and TLS."""

    behind_proxy: bool = False
    """Whether a proxy in front encrypts; then a public address needs no TLS here."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose ``X-Forwarded-For`` and ``-Proto`` are trusted."""

    hosts: tuple[str, ...] = ()
    """Host names of the server, besides the address it is bound to."""

    origins: tuple[str, ...] = ()
    """Web origins that may send requests, besides its own."""

    metrics_per_topic: bool = False
    """Whether metrics have a line for every topic: adds time series for each topic."""

    log_format: str = "text"
    """``text`` for people, ``json`` for machines."""

    drain_s: float = 10.0
    """How long requests may take to end when the server shuts down."""

    tls: TlsSettings = TlsSettings()
    """Encryption."""

    limits: RequestLimits = RequestLimits()
    """Limits of requests."""

    live: LiveSettings = LiveSettings()
    """How records are pushed to streams."""

    store: Settings = Settings()
    """The store's own settings."""
