"""What `pip install` brings: the package, and all that its commands need, and nothing of our own tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    for kind in ("wheel", "sdist"):
        run(ROOT, "-m", "hatchling", "build", "-t", kind, "-d", str(folder))
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, as pip unpacks them."""
    folder = tmp_path_factory.mktemp("site")
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_no_other(installed: Path) -> None:
    package = ROOT / "src" / "cellule"
    mine = {str(each.relative_to(package)) for each in package.rglob("*") if each.is_file()}
    mine = {each for each in mine if "__pycache__" not in each}
    theirs = {str(each.relative_to(installed / "cellule")) for each in (installed / "cellule").rglob("*.*")}
    assert {each for each in theirs if (installed / "cellule" / each).is_file()} == mine
    assert {each.name.split("-")[0] for each in installed.iterdir()} == {"cellule"}


def test_nothing_that_is_installed_imports_our_tests(installed: Path) -> None:
    found = [each.name for each in installed.rglob("*.py") if "from tests" in each.read_text()]
    assert found == []


def test_a_project_made_by_the_installed_package_runs_and_its_tests_pass(
    installed: Path, tmp_path: Path
) -> None:
    place = {"PYTHONPATH": str(installed)}
    where = run(tmp_path, "-c", "import cellule; print(cellule.__file__)", **place)
    assert Path(where.strip()).is_relative_to(installed)
    run(tmp_path, "-m", "cellule", "init", "shop", **place)
    run(tmp_path, "-m", "cellule", "module", "init", "counter", **place)
    project = tmp_path / "shop"
    options = ("-q", "-p", "cellule.testing.plugin", "-p", "no:cacheprovider", ".")
    assert "2 passed" in run(project, "-m", "pytest", *options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **place)
    run(project, "-m", "cellule", "--app", "app.py", "world", "create", "main", **place)
    run(project, "-m", "cellule", "event", "send", "Placed", '{"order_id": "o1", "total": 30}', **place)
    assert '"total": 30' in run(project, "-m", "cellule", "cell", "show", "order", "o1", **place)


def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    run(source, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again"))
    [first], [again] = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(again) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
