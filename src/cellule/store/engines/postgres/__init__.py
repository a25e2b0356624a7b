"""The PostgreSQL engine, for many machines: any PostgreSQL 14 or newer that speaks the ordinary protocol.

Needs the extra `cellule[postgres]`. What is stored how is described in `docs/formats/postgres.md`.
"""

from cellule.store.engines.postgres.engine import PostgresEngine
from cellule.store.engines.postgres.layout import install_script

__all__ = ["PostgresEngine", "install_script"]
