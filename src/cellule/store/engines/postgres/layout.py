"""The tables and the commit function of a Cellule schema, as SQL text; nothing here talks to a server.

Each key family has a table of its own, so that queues, frames and objects are vacuumed apart. A commit is
one call of `commit_<version>`, which works in three steps, under READ COMMITTED:

1. *touch*: every key of a family with expectations is locked in key order. A *witness*, which is expected to
   hold a value and is not written, is locked shared: many batches expect the same row at once, and none waits
   for another's disk. For the others `ON CONFLICT DO UPDATE ... WHERE false` locks a row that exists and
   writes nothing; an absent one is created as an empty row.
2. *compare*: an expected absence is such an empty row (a sealed row is never empty). On a mismatch the empty
   rows are deleted again and the key that clashed is returned.
3. *write*: clear ranges, upsert, delete; families without expectations are locked only now, by these writes.

Families, and keys within them, are always taken in the same order, and absent keys are locked too: batches
without ranges cannot deadlock, and their effects are those of a serial order.

Rejected: one table partitioned by family. Tuple routing costs a tenth of a frame commit.
Rejected: `SELECT ... FOR UPDATE` of the rows that exist. Keys created meanwhile are taken out of order and
deadlock, and clearing an absent key locks nothing, which is not serializable; it is not faster either.
Rejected: SERIALIZABLE. It aborts worlds that share nothing but an index page.
"""

from __future__ import annotations

from cellule.store.families import Family

LAYOUT_VERSION = 2
TABLES = {
    Family.META: "meta",
    Family.JOURNAL: "journal",
    Family.QUEUE: "queue",
    Family.CAS: "cas",
    Family.COUNTER: "counter",
}
VALUE_FAMILIES = (Family.META, Family.JOURNAL, Family.QUEUE, Family.CAS)
VALUE_ARGUMENTS = (
    "witness_keys", "witness_values", "touch_keys", "expect_keys", "expect_values", "write_keys",
    "write_values", "clear_keys", "range_from", "range_until",
)  # fmt: skip
COUNTER_ARGUMENTS = ("add_keys", "add_values", "clear_keys", "range_from", "range_until")

# Rows up to 4 kB stay in the table, two to a page; longer ones are stored apart, uncompressed: values are
# mostly hashes and packed bytes. Heads, epochs and counters are updated in place, so their pages keep room.
_STORAGE = {
    Family.META: "fillfactor = 60, toast_tuple_target = 4080, autovacuum_vacuum_scale_factor = 0.05",
    Family.JOURNAL: "toast_tuple_target = 4080",
    Family.QUEUE: (
        "fillfactor = 90, toast_tuple_target = 4080, vacuum_index_cleanup = on,"
        " autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,"
        " autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,"
        " autovacuum_analyze_threshold = 10000"
    ),
    Family.CAS: "toast_tuple_target = 4080",
    Family.COUNTER: (
        "fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,"
        " autovacuum_vacuum_cost_delay = 0"
    ),
}

_SCRIPT = """\
CREATE TABLE IF NOT EXISTS {schema}.installed (version integer PRIMARY KEY);
CREATE SEQUENCE IF NOT EXISTS {schema}.stamps;
{tables}
{function}
INSERT INTO {schema}.installed VALUES ({version}) ON CONFLICT DO NOTHING;
"""

_TOUCH = """
    IF {table}_touch_keys IS NOT NULL OR {table}_expect_keys IS NOT NULL
        OR {table}_witness_keys IS NOT NULL THEN
        {table}_touch_keys := coalesce({table}_touch_keys, {table}_expect_keys);
        low := ''::bytea;
        FOREACH witness IN ARRAY coalesce({table}_witness_keys, '{{}}'::bytea[]) LOOP
            INSERT INTO {schema}.{table} AS t
                SELECT b.key, ''::bytea FROM unnest({table}_touch_keys) AS b (key)
                WHERE b.key >= low AND b.key < witness
                ON CONFLICT (key) DO UPDATE SET value = t.value WHERE false;
            PERFORM 1 FROM {schema}.{table} WHERE key = witness FOR SHARE;
            IF NOT FOUND THEN
                clash := ARRAY[witness, NULL];{undo}
                RETURN clash;
            END IF;
            low := witness;
        END LOOP;
        INSERT INTO {schema}.{table} AS t SELECT b.key, ''::bytea FROM unnest({table}_touch_keys) AS b (key)
            WHERE b.key >= low
            ON CONFLICT (key) DO UPDATE SET value = t.value WHERE false;
        SELECT ARRAY[b.key, nullif(t.value, ''::bytea)] INTO clash
            FROM unnest({table}_expect_keys || {table}_witness_keys,
                        {table}_expect_values || {table}_witness_values) AS b (key, value)
            JOIN {schema}.{table} AS t ON t.key = b.key WHERE t.value <> b.value LIMIT 1;
        IF clash IS NOT NULL THEN{undo}
            RETURN clash;
        END IF;
    END IF;
"""

_UNDO = """
            DELETE FROM {schema}.{table} WHERE key = ANY ({table}_touch_keys) AND value = ''::bytea;"""

_WRITE = """
    IF {table}_range_from IS NOT NULL THEN
        DELETE FROM {schema}.{table} AS t
            USING unnest({table}_range_from, {table}_range_until) AS r (low, high)
            WHERE t.key >= r.low AND t.key < r.high;
    END IF;
    IF {table}_write_keys IS NOT NULL THEN
        INSERT INTO {schema}.{table} AS t SELECT * FROM unnest({table}_write_keys, {table}_write_values)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE excluded.value <> ''::bytea;
    END IF;
    IF {table}_clear_keys IS NOT NULL THEN
        DELETE FROM {schema}.{table} WHERE key = ANY ({table}_clear_keys);
    END IF;
"""

# A sum beyond 64 bits wraps; no step of the expression leaves bigint.
_COUNT = """
    IF counter_range_from IS NOT NULL THEN
        DELETE FROM {schema}.counter AS t
            USING unnest(counter_range_from, counter_range_until) AS r (low, high)
            WHERE t.key >= r.low AND t.key < r.high;
    END IF;
    IF counter_add_keys IS NOT NULL THEN
        INSERT INTO {schema}.counter AS t SELECT * FROM unnest(counter_add_keys, counter_add_values)
            ON CONFLICT (key) DO UPDATE SET value = CASE
                WHEN excluded.value > 0 AND t.value > 9223372036854775807 - excluded.value
                    THEN (t.value - 9223372036854775807 - 1) + (excluded.value - 9223372036854775807 - 1)
                WHEN excluded.value < 0 AND t.value < -9223372036854775807 - 1 - excluded.value
                    THEN (t.value + 9223372036854775807 + 1) + (excluded.value + 9223372036854775807 + 1)
                ELSE t.value + excluded.value END;
    END IF;
    IF counter_clear_keys IS NOT NULL THEN
        DELETE FROM {schema}.counter WHERE key = ANY (counter_clear_keys);
    END IF;
"""


def install_script(schema: str) -> str:
    """Return the SQL that makes everything inside an existing `schema`; harmless when run again.

    An operator may run it by hand (after `CREATE SCHEMA`); then Cellule's own role needs no right to create.
    """
    tables = "".join(_table(schema, family, table) for family, table in TABLES.items())
    return _SCRIPT.format(
        schema=schema, version=LAYOUT_VERSION, tables=tables, function=_commit_function(schema)
    )


def commit_statement(schema: str) -> str:
    """Return the one statement of a commit; its arguments are those of `arguments`, in order."""
    places = ", ".join(f"${place}" for place in range(1, len(arguments()) + 1))
    return f"SELECT {schema}.commit_{LAYOUT_VERSION}({places})"


def arguments() -> list[tuple[str, str]]:
    """Return name and type of the arguments of the commit function."""
    named = [(f"{TABLES[family]}_{name}", "bytea[]") for family in VALUE_FAMILIES for name in VALUE_ARGUMENTS]
    counts = [
        (f"counter_{name}", "bigint[]" if name == "add_values" else "bytea[]") for name in COUNTER_ARGUMENTS
    ]
    return named + counts


def _table(schema: str, family: Family, table: str) -> str:
    kind = "bigint" if family is Family.COUNTER else "bytea"
    create = (
        f"CREATE TABLE IF NOT EXISTS {schema}.{table} (key bytea PRIMARY KEY, value {kind} NOT NULL)\n"
        f"    WITH ({_STORAGE[family]});\n"
    )
    if family is Family.COUNTER:
        return create
    return create + f"ALTER TABLE {schema}.{table} ALTER COLUMN value SET STORAGE EXTERNAL;\n"


def _commit_function(schema: str) -> str:
    declared = ", ".join(f"{name} {kind}" for name, kind in arguments())
    body = ""
    undo = ""
    for family in VALUE_FAMILIES:
        undo += _UNDO.format(schema=schema, table=TABLES[family])
        body += _TOUCH.format(schema=schema, table=TABLES[family], undo=undo)
    for family in VALUE_FAMILIES:
        body += _WRITE.format(schema=schema, table=TABLES[family])
    body += _COUNT.format(schema=schema)
    return (
        f"CREATE OR REPLACE FUNCTION {schema}.commit_{LAYOUT_VERSION}({declared}) RETURNS bytea[]\n"
        f"LANGUAGE plpgsql VOLATILE AS $commit$\nDECLARE\n    clash bytea[];\n"
        f"    low bytea;\n    witness bytea;\nBEGIN{body}"
        "    RETURN NULL;\nEND\n$commit$;"
    )
