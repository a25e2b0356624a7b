"""Every number of the adapters, in one place."""

from __future__ import annotations

# Adapters
TIMEOUT_S = 60.0  # of one attempt
TIMEOUT_S_MAX = 86_400.0
ATTEMPTS_MAX = 10_000
DEADLINE_S = 86_400.0  # since the request: an attempt that fails later is the last
DEADLINE_S_MAX = 31_622_400.0
CONCURRENCY = 16  # attempts of one kind at once on a node
CONCURRENCY_MAX = 10_000
PRIORITY = 5
PRIORITY_MAX = 9  # the last to be served
BACKOFF_S = 0.5  # first pause between attempts
BACKOFF_MAX_S = 60.0
KIND_CHARS_MAX = 128
PROGRESS_BYTES_MAX = 8_000  # of what an attempt reports as its progress

# http.request
HTTP_INLINE_BYTES = 32_000  # a longer body is put into the CAS
HTTP_BODY_BYTES = 64_000_000  # of a response, unless the request says less or more
HTTP_BODY_BYTES_MAX = 1_000_000_000
HTTP_URL_CHARS_MAX = 8_192
HTTP_REDIRECTS_MAX = 10
HTTP_CONNECT_S = 10.0  # to one address
HTTP_ADDRESSES_MAX = 8  # of a name that are tried
HTTP_RETRY_AFTER_S_MAX = 3_600.0  # longer requests to wait are cut to this
HTTP_RESOLVERS = 16  # names looked up at once by a process
HTTP_CONNECTIONS = 100
HTTP_KEPT_CONNECTIONS = 20
HTTP_ERROR_CHARS_MAX = 300  # of a foreign error's text

# Secrets
SECRET_NAME_CHARS_MAX = 64
SECRET_CHARS_MIN = 6  # a shorter one could not be kept out of texts without spoiling them
SECRET_BYTES_MAX = 65_536
SECRETS_MAX = 1_000  # in one vault
VAULT_BYTES_MAX = 4_000_000  # the whole file
