"""The wheel: built, installed into an empty environment and used there."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = {  # what is no Python, and must be in the wheel all the same
    path.relative_to(ROOT / "src").as_posix()
    for path in (ROOT / "src").rglob("*")
    if path.is_file() and path.suffix in {".html", ".js", ".css", ".md", ".typed"}
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*command, "--wheel-dir", folder, ROOT], check=True)
    (built,) = folder.glob("g2netpl-*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel, tmp_path_factory):
    """g2netpl of an environment that has the wheel, and the packages that it needs from ours."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place)
    python = place / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, "--quiet", wheel], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin" / "g2netpl"


def use(command, *words):
    """Run it where our checkout cannot be seen."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [command, *map(str, words)], capture_output=True, text=True, env=environment, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_is_in_it(wheel):
    assert len(DATA) > 10
    assert set(zipfile.ZipFile(wheel).namelist()) >= DATA


def test_it_is_the_wheel_that_runs(command):
    python = command.with_name("python")
    where = use(python, "-c", "import g2netpl; print(g2netpl.__file__)")
    assert where.startswith(str(command.parents[1]))


def test_pages_are_made_from_it(command, small_run, tmp_path):
    page = tmp_path / "report.html"
    use(command, "report", small_run, "--output", page)
    assert "</html>" in page.read_text(encoding="utf-8")
    bundle = tmp_path / "small.onnx"
    use(command, "export", small_run, "--output", bundle)
    assert bundle.with_suffix(".md").is_file()
    served = "from g2netpl.review.server import _FILES; from importlib.resources import files; "
    served += (
        "[(files('g2netpl.review') / 'page' / name).read_bytes() for name, _ in _FILES.values()]"
    )
    use(command.with_name("python"), "-c", served)
