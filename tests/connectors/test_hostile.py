"""Files that mean harm, and files that change under a campaign: a clear error, a bounded cost, and nothing lost."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import sourcewise as sw
from connectors.clusters import study_file
from sourcewise.errors import ConnectorError, DataError, SourcewiseError
from sourcewise.records import CampaignRecord
from sourcewise.statistics.ipc_bounds import unpacked_bytes
from sourcewise.testing.connectors import people

MEGABYTES = 200
"""More than any of these files may take above the imports: they take 30 to 100, and hold up to 10,000."""

PROGRAM = """
import re, sys
import pyarrow.csv, pyarrow.parquet
import sourcewise as sw

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

study = sw.Study(["z*(x - a*z)"], "a", {"people": sw.Source("z x")})
before = peak()
try:
    sw.connect(sys.argv[1]).deliver(study, "people", 0, 100)
    print("it was read")
except sw.SourcewiseError as error:
    print(error)
print(peak() - before)
"""


def refused_in_a_fresh_process(path: Path) -> str:
    """What is said of the file; the process may not grow, and a minute is more than it may take."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of memory is known on Linux only")
    command = [sys.executable, "-c", PROGRAM, str(path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ})
    *said, grown = found.stdout.splitlines()
    assert int(grown) < MEGABYTES
    return "\n".join(said)


def test_a_line_of_ten_gigabytes(tmp_path: Path) -> None:
    """Sparse: ten gigabytes of zero bytes that take no room on the disk."""
    for rows in (0, 1000):
        path = tmp_path / f"after-{rows}.csv"
        path.write_text("z,x\n" + "1,2\n" * rows)
        try:
            os.truncate(path, 10 << 30)
        except OSError:
            pytest.skip("the file system has no sparse files of this size")
        said = refused_in_a_fresh_process(path)
        path.unlink()
        assert "is longer than 1 MB" in said
        assert path.name in said


def test_a_gzip_bomb(tmp_path: Path) -> None:
    """Two gigabytes of good rows in two megabytes."""
    path = tmp_path / "rows.csv.gz"
    part = gzip.compress(b"1,2\n" * (1 << 22))
    path.write_bytes(gzip.compress(b"z,x\n") + part * 128)
    assert path.stat().st_size < 4 << 20
    assert "unpacks to more than 200 times its size" in refused_in_a_fresh_process(path)


@pytest.mark.parametrize("packing", ["zstd", "lz4"])
def test_an_arrow_bomb(packing: str, tmp_path: Path) -> None:
    """One batch of 800 megabytes of zeros, or a dictionary of as much, in some 100 kilobytes; in files and streams."""
    zeros = pa.table({"z": np.zeros(50_000_000), "x": np.zeros(50_000_000)})
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array(np.zeros(100_000_000)))
    options = pa.ipc.IpcWriteOptions(compression=packing)
    for name, table in (("zeros", zeros), ("words", pa.table({"z": [1.0, 2.0], "x": [1.0, 2.0], "word": words}))):
        for kind, made in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
            path = tmp_path / f"{name}.{kind}"
            with pa.OSFile(str(path), "wb") as sink, made(sink, table.schema, options=options) as writer:
                writer.write_table(table)
            assert path.stat().st_size < 8 << 20
            said = refused_in_a_fresh_process(path)
            assert "unpacks to more than 200 times its size" in said


def test_packed_arrow_files_that_mean_well_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    for packing in ("zstd", "lz4"):
        options = pa.ipc.IpcWriteOptions(compression=packing)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, people().schema, options=options) as writer:
            writer.write_table(people(), max_chunksize=300)
        sizes = list(unpacked_bytes(path, 8))
        assert len(sizes) == 4
        assert min(sizes[:3]) > 300 * 8 * 3
        assert max(sizes) < 300 * 100
        found = sw.connect(path).take(0, 2_000, ["id"])["id"]
        assert sorted(found.tolist()) == sorted(people()["id"].to_pylist())


def test_a_header_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"z," + b"x" * (64 << 20))
    assert refused_in_a_fresh_process(path) != "it was read"


def spoiled_text(path: Path) -> None:
    """Numbers for a megabyte, which is what types are inferred from, and then a word."""
    path.write_text("z,x\n" + "1.5,2.5\n" * 300_000 + "1.5,many\n")


def spoiled_end(path: Path) -> None:
    path.write_text("z,x\n1,2\n3\n")


def spoiled_bytes(path: Path) -> None:
    path.write_bytes(b"z,x\n1,2\n\xff\xfe\x00,4\n")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [(spoiled_text, "'x' is not numeric"), (spoiled_end, "rows.csv"), (spoiled_bytes, "'z' is not numeric")],
)
def test_wrong_types_and_torn_rows_are_said_with_a_name(
    spoil: Callable[[Path], None], named: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    spoil(path)
    study = sw.Study(["z*(x - a*z)"], "a", {"people": sw.Source("z x")})
    with pytest.raises(DataError, match=named):
        sw.summarize(study, "people", sw.connect(path))


def test_a_parquet_file_cut_short_or_of_another_kind(tmp_path: Path) -> None:
    good = tmp_path / "good.parquet"
    pq.write_table(people(), good)
    study = sw.Study(["z*(x - a*z)"], "a", {"people": sw.Source("z x")})
    for name, content in {"cut": good.read_bytes()[:-20], "empty": b"", "other": b"PK\x03\x04" * 100}.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"{name}.parquet' cannot be read"):
            sw.connect(path).deliver(study, "people", 0, 10)


# --- files that change under a campaign ------------------------------------------------------------------------------


def grown(folder: Path) -> Callable[[], None]:
    """A file gets another row; and is put back."""
    path, kept = folder / "b.csv", folder.parent / "kept"
    shutil.copy2(path, kept)
    with path.open("a") as file:
        file.write(path.read_text().splitlines()[1] + "\n")

    def restore() -> None:
        shutil.copy2(kept, path)

    return restore


def lost(folder: Path) -> Callable[[], None]:
    path, kept = folder / "a.csv", folder.parent / "kept"
    path.rename(kept)
    return lambda: (kept.rename(path), None)[1]


def joined(folder: Path) -> Callable[[], None]:
    path = folder / "c.csv"
    shutil.copy2(folder / "a.csv", path)
    return path.unlink


def text_for_numbers(folder: Path) -> Callable[[], None]:
    path, kept = folder / "b.csv", folder.parent / "kept"
    shutil.copy2(path, kept)
    path.write_text(path.read_text().replace("1000000.", "about 1000000."))

    def restore() -> None:
        shutil.copy2(kept, path)

    return restore


def all_gone(folder: Path) -> Callable[[], None]:
    kept = folder.parent / "kept"
    folder.rename(kept)
    return lambda: (kept.rename(folder), None)[1]


@pytest.mark.parametrize("change", [grown, lost, joined, text_for_numbers, all_gone])
def test_a_campaign_survives_what_happens_to_its_files(
    change: Callable[[Path], Callable[[], None]], tmp_path: Path
) -> None:
    """After a round the folder changes: the next round is refused, and nothing that was counted is lost. Put back, the
    campaign comes to the end that it would have come to."""
    folder = tmp_path / "people"
    folder.mkdir()
    table = pa.table({name: people(4_000).column(name) for name in ("z", "x")})
    for k, name in enumerate("ab"):
        csv.write_csv(table.slice(2_000 * k, 2_000), folder / f"{name}.csv")
    study = study_file(tmp_path, '{path = "people", seed = 3}')
    whole = sw.run(study, tmp_path / "whole.db")
    before = sw.run(study, tmp_path / "parts.db", rounds=1)
    restore = change(folder)
    with pytest.raises(SourcewiseError, match=r"has changed|there is no file") as caught:
        sw.run(study, tmp_path / "parts.db")
    assert isinstance(caught.value, ConnectorError | DataError)
    with sw.Campaign.open(tmp_path / "parts.db") as campaign:
        assert {s.name: s.rows for s in campaign.status().sources}["people"] == rows_of(before)["people"]
    restore()
    after = sw.run(study, tmp_path / "parts.db")
    assert after.current is not None
    assert whole.current is not None
    assert after.current.value == whole.current.value
    assert rows_of(after) == rows_of(whole)


def rows_of(record: CampaignRecord) -> dict[str, int]:
    return {source.name: source.rows for source in record.sources}
