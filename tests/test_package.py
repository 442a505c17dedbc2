from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import re
import shlex
import shutil
import tomllib
from contextlib import chdir
from pathlib import Path

import pytest

import yoro
from command_line import run
from yoro import limits

ROOT = Path(__file__).parents[1]
PACKAGE = Path(yoro.__file__).parent
LONG_PAGES = ("bench.md", "cluster.md", "comparing.md", "parties.md", "refinement.md", "trust.md", "verbs.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_public_names_are_those_listed():
    assert dir(yoro) == yoro.__all__
    assert all(getattr(yoro, name) is not None for name in yoro.__all__)
    assert yoro.__all__ == sorted(yoro.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = yoro.nothing


def modules_with_examples() -> list[str]:
    """Names of the modules whose docstrings have examples; in the others there is nothing that could fail."""
    files = sorted(file for file in PACKAGE.rglob("*.py") if "\n    >>> " in file.read_text(encoding="utf-8"))
    return [".".join(("yoro", *file.relative_to(PACKAGE).with_suffix("").parts)) for file in files]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name):
    try:
        module = importlib.import_module(name.removesuffix(".__init__"))
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "timm", "torchvision", "open_clip"):
            raise
        pytest.skip("needs the torch extra, which `make test` installs")
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Python, commands, and what stands right below commands as their output."""
    form = r"^```(python|console)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?"
    found = re.findall(form, page.read_text(), re.DOTALL | re.MULTILINE)
    return [(kind, code, output if kind == "console" else "") for kind, code, output in found]


def without_numbers(text: str) -> list[str]:
    """Lines in which times, memory and shares do not matter, nor which reading comes first."""
    lines = re.sub(r"\d[\d.,]*", "#", re.sub(r"(?<=weighted by loo: ).*", "...", text)).splitlines()
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page.name in LONG_PAGES else (), id=page.name) for page in PAGES],
)
def test_code_blocks_of_the_pages_run(page, tmp_path, monkeypatch):
    """Python blocks of a page share one program; `$ yoro ...` lines of console blocks run in the same folder.

    A block of text right below says what they print, but for the numbers.
    """
    monkeypatch.setenv("YORO_CONFIG", str(tmp_path / "config"))
    names: dict[str, object] = {}
    for file in (page, *(ROOT / "examples").iterdir()):
        if file.is_file():
            shutil.copy(file, tmp_path)
    for kind, code, output in blocks(page):
        if kind == "python":
            with chdir(tmp_path):
                exec(compile(code, str(page), "exec"), names)
            continue
        lines = re.findall(r"^\$ yoro (.*)$", code, re.MULTILINE)
        printed = [run(*shlex.split(line, comments=True), cwd=tmp_path) for line in lines]
        if output:
            assert without_numbers("".join(done.stderr + done.stdout for done in printed)) == without_numbers(output)


def test_the_readme_names_the_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert named <= targets


def test_the_accuracies_of_the_readme_are_those_of_the_page_that_says_how_they_were_measured():
    rows = {
        page: re.findall(
            r"^\| (pets|clothes|textures)\b[^|]*\|(.+\(.+ s\).*)\|$", (ROOT / page).read_text(), re.MULTILINE
        )
        for page in ("README.md", "docs/accuracy.md")
    }
    assert len(rows["README.md"]) == 3
    for data, cells in rows["README.md"]:
        measured = "|".join(row for name, row in rows["docs/accuracy.md"] if name == data)
        assert {cell.strip() for cell in cells.split("|")} <= {cell.strip() for cell in measured.split("|")}


def test_examples_on_the_page_of_the_python_interface_are_code():
    page = (ROOT / "docs" / "api.md").read_text()
    assert page.count(">>>") > 10
    assert ">>>" not in re.sub(r"^```\w+\n.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)


def test_the_architecture_page_names_the_rooms_in_the_order_of_the_import_rules():
    rooms = re.findall(r"^\| `([a-z]+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    order = [room for layer in layers for room in layer.split(" | ")]
    assert sorted(rooms) == sorted({*order} - {"__main__", "environment", "errors", "limits", "option", "user_code"})
    places = {room: place for place, layer in enumerate(layers) for room in layer.split(" | ")}
    assert [places[room] for room in rooms] == sorted(places[room] for room in rooms)


def test_files_that_the_architecture_page_names_are_there():
    page = (ROOT / "docs" / "architecture.md").read_text()
    for name in set(re.findall(r"`([a-z_]+/[a-z_/]*[a-z_]\.py)", page)):
        assert (ROOT / "src" / "yoro" / name).is_file(), name


def test_every_test_that_the_security_page_names_is_there():
    named = re.findall(r"`(tests/[a-z_/]+\.py)::(test_\w+)`", (ROOT / "docs" / "security.md").read_text())
    assert len(named) > 40
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), (file, name)


def test_the_security_page_shows_the_limits_as_they_are():
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.+?) \|", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE)
    units = {"KB": limits.KB, "MB": limits.MB, "GB": limits.GB}
    names = [name for name in vars(limits) if name.isupper() and name not in units]
    assert [name for name, _ in rows] == names
    for name, shown in rows:
        number, _, unit = shown.partition(" ")
        value = float(number.replace(",", "")) * units.get(unit, 1)
        assert value == pytest.approx(getattr(limits, name), rel=1e-8), name


def test_what_the_makefile_installs_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    pinned = {re.fullmatch(r"([\w.-]+)==[\w.+!]+", line)[1].lower().replace("_", "-") for line in lines}
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = facts["project"]["optional-dependencies"]
    wanted = [item for extra in ("torch", "clip", "serve", "bench", "heif", "plot") for item in extras[extra]]
    wanted += facts["project"]["dependencies"]
    wanted += facts["dependency-groups"]["dev"]
    names = {re.match(r"[\w.-]+", item)[0].lower().replace("_", "-") for item in wanted} - {"yoro-vr"}
    assert names <= pinned, names - pinned
    installs = re.findall(r"(?:pip|call) install.*--editable.*", (ROOT / "Makefile").read_text())
    assert len(installs) == 3
    assert sum("--constraint constraints.txt" in line for line in installs) == len(installs) - 1  # `make constraints`


def test_no_line_installs_from_an_index_what_no_index_has():
    for file in (*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "src").rglob("*.py")):
        assert not re.search(r"install.*yoro-vr", file.read_text()), file


def test_the_pages_of_the_python_interface_and_of_the_options_are_current():
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    for path, make in maker.PAGES.items():
        assert path.read_text() == make(), "run `make api`"


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a function has, `self` and `cls` aside."""
    taken = function.args
    named = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, *filter(None, (taken.vararg, taken.kwarg))]
    return sum(one.arg not in ("self", "cls") for one in named)


def test_no_function_has_more_than_seven_parameters_and_no_method_hides_another_signature():
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "ignore[override" not in text, file
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert parameters(node) <= 7, (file, node.name)
