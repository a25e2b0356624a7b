"""Secrets: references in params, resolved where an adapter performs, and kept out of everything else.

Reading order: `reference` (what a cell holds), `resolver` (from reference to value), `redactor` (values out
of texts and logs), `sources` (environment, folder, vault), `vault` (the encrypted file), `vault_bytes` (its
format), `vault_key`.
"""

from __future__ import annotations

from cellule.effects.secrets.redactor import Redactor
from cellule.effects.secrets.reference import Secret, secret
from cellule.effects.secrets.resolver import Secrets

__all__ = ["Redactor", "Secret", "Secrets", "secret"]
