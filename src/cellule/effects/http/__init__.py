"""`http.request`: one HTTP request as an effect, and the guard around where it may go.

Reading order: `params` (what a step writes and gets), `target` (where it goes, checked against the grant),
`addresses`, `transport` (connections to checked addresses), `request`, `response`, `adapter` (one attempt).
This package's own names do not load the HTTP client, so modules of steps may import them.
"""

from __future__ import annotations

from cellule.effects.http.params import HttpRequest, HttpResponse, http_request

__all__ = ["HttpRequest", "HttpResponse", "http_request"]
