"""Lines as a Parquet file of FOCUS. Input: lines in their order and the bill they stand on; output: the file in pieces, one
for each group of rows.

Apart from `focus_export`, which imports it when such a file is asked for: pyarrow takes 40 MB that CSV does not need.
Invariants: memory holds one group; the same lines give the same bytes with the same release of pyarrow, whose name is
in the file; no figure is a float."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from apps.chargeback.focus import COLUMNS, PLACES, VERSION, Bill, Kind, Line, Row, Shared, Value
from apps.core.batches import batches

GROUP_LINES = 10_000
_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.DECIMAL: pa.decimal128(38, 18),
    Kind.TIME: pa.timestamp("us", tz="UTC"),
    Kind.INTEGER: pa.int64(),
    Kind.FLAG: pa.bool_(),
}
SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in COLUMNS.items()])


def parquet_pieces(
    lines: Iterable[Line], bill: Bill, *, unpriced: int, group: int = GROUP_LINES
) -> Iterator[bytes]:
    """`unpriced`: how many lines are left out for want of a price; the file's metadata says so."""
    schema = SCHEMA.with_metadata({"focus_version": VERSION, "unpriced_lines": str(unpriced)})
    sink, shared = _Sink(), Shared(bill, _all_values)
    with pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as writer:
        for some in batches(lines, group):
            columns = zip(*(_row(*shared.of(line)) for line in some), strict=True)
            arrays = [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema), row_group_size=group)
            yield sink.taken()
    yield sink.taken()


def _all_values(shared: Row) -> list[Value]:
    return [shared.get(name) for name in COLUMNS]


def _row(single: tuple[Value, ...], values: list[Value]) -> list[Value]:
    found = values.copy()
    for place, value in zip(PLACES, single, strict=True):
        found[place] = value
    return found


class _Sink(io.RawIOBase):
    """A file that hands on what is written to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        self._length += len(data)
        return len(data)

    def taken(self) -> bytes:
        """What was written since the last time."""
        found, self._parts = b"".join(self._parts), []
        return found
