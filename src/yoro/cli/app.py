"""The command `yoro`: its verbs, their overview, and how errors end.

The overview and the version are printed from here; `yoro.cli.parser` is imported for a verb that is called.
"""

from __future__ import annotations

import errno
import sys
import textwrap

from yoro.cli.output import UsageError, abandon_stdout, prepare_streams, print_text, say
from yoro.environment import __version__, address_space, cores, refuse_telemetry
from yoro.errors import YoroError, one_line

DAILY = "Common"
LOOKING = "Looking closer"
CHANGES = "Changing a model"
PLACES = "One model from several places"
FURTHER = "More"
ABOUT = "Turn labelled images and a frozen pretrained model into a classifier: one pass, no training."
VERBS = {  # module of `cli`, which is imported when it is called; what it takes; its group; the first line of its help
    "fit": ("fit", "DATA... --out M.yoro [OPTIONS]", DAILY,
        "Fit a classifier in one pass and save it."),
    "predict": ("predict", "M.yoro IMAGES... [OPTIONS]", DAILY,
        "Predict classes, sort images by class, or show them on a page."),
    "evaluate": ("predict", "M.yoro DATA... [OPTIONS]", DAILY,
        "Measure accuracy, calibration and confusions on labelled data."),
    "issues": ("issues", "DATA... [--model M.yoro] [--fix [LIST]] [OPTIONS]", DAILY,
        "Find wrong labels, outliers and duplicates; --fix corrects them."),
    "label": ("label", "PILE --into FOLDER|--list FILE.csv|--groups FOLDER [OPTIONS]", DAILY,
        "Label a pile of photos: name groups, check what is proposed."),
    "update": ("change", "M.yoro DATA... [--out N.yoro] [OPTIONS]", DAILY,
        "Add labelled images to a model, exactly; new classes are allowed."),
    "export": ("inspect", "M.yoro [FILE.onnx] [--web FOLDER] [OPTIONS]", DAILY,
        "Export a model as an ONNX graph or a web page, verified first."),
    "serve": ("serve", "M.yoro|--responses SOURCE [--port N] [OPTIONS]", DAILY,
        "Serve a model over HTTP."),
    "studio": ("studio", "[DATA...] [--work FOLDER] [--open] [OPTIONS]", DAILY,
        "Build a classifier interactively, in a local web app."),
    "demo": ("demo", "[--out FOLDER]", LOOKING,
        "Fit photographs and digits, compare with logistic regression."),
    "inspect": ("inspect", "M.yoro [OPTIONS]", LOOKING,
        "Show classes, counts, backbone, shrinkage and history of a model."),
    "explain": ("explain", "M.yoro [IMAGES...] [OPTIONS]", LOOKING,
        "Explain a class or a prediction."),
    "advise": ("advise", "DATA... [--more IMAGES] [OPTIONS]", LOOKING,
        "Estimate what more images would gain, and which to label next."),
    "compare": ("compare", "DATA... [OPTIONS]", LOOKING,
        "Compare yoro fit with other methods on your images."),
    "forget": ("change", "M.yoro DATA... [--out N.yoro] [--receipt FILE.json] [--verify FILE.json] [OPTIONS]", CHANGES,
        "Remove labelled images from a model exactly (machine unlearning)."),
    "relabel": ("change", "M.yoro OLD=NEW... [--out N.yoro] [OPTIONS]", CHANGES,
        "Rename classes; classes with the same new name are merged exactly."),
    "refine": ("refine", "M.yoro DATA... --out N.yoro [--val DATA] [OPTIONS]", CHANGES,
        "Train a visual prompt for a few epochs; kept only if it helps."),
    "stats": ("stats", "DATA... --out S.stats [--part I/N] [--sums-only] [OPTIONS]", PLACES,
        "Compute the statistics of labelled data, to be merged later."),
    "merge": ("stats", "A.yoro|A.stats B... --out C.yoro|C.stats [OPTIONS]", PLACES,
        "Merge models or statistics exactly, as if fitted together."),
    "respond": ("predict", "DATA... --out Z.npz [OPTIONS]", FURTHER,
        "Save a backbone's responses; every verb accepts them as data."),
    "completion": ("parser", "bash|zsh|fish", FURTHER,
        "Print a script that completes commands in bash, zsh or fish."),
}  # fmt: skip
GROUPS = {  # of verbs, each an app in a module of its own
    "models": (LOOKING, "List backbones: installed ones, how to get others, which to choose."),
    "parties": (PLACES, "Combine organisations' statistics; only the total is revealed."),
    "attributes": (FURTHER, "List, validate, sample or generate class descriptions."),
    "bench": (FURTHER, "Run plans of datasets, backbones and methods; make their tables."),
    "endpoint": (FURTHER, "Check an API endpoint; exchange files with batch endpoints."),
}
EARLIER = {  # spellings that still work, and what is said of them
    "verify": (
        "change", "M.yoro FILE.json [DATA...] [OPTIONS]",
        "`yoro verify` is now `yoro forget M.yoro --verify FILE.json`.",
    ),
    "clean": (
        "issues", "M.yoro LIST [--out N.yoro] [OPTIONS]",
        "`yoro clean` is now `yoro issues --fix LIST --model M.yoro`, which moves the files as well.",
    ),
}  # fmt: skip
# verbs that write at the end or not at all, for the message on Ctrl-C
WRITE_AT_END = ("predict", "evaluate", "issues", "export", "explain", "advise", "compare", "respond", "merge")
LEAST_MEMORY = 800 * 2**20  # address space to load the libraries and run the embedded backbone
MEMORY_PER_CORE = 128 * 2**20  # and for the threads of each core
NEAR = 0.75  # share of the memory limit above which an unknown error is reported as out of memory
NO_MEMORY = ("can't start new thread", "failed to map segment", "cannot allocate memory")


def overview(*, whole: bool = False) -> str:
    """The common verbs with a line each, and the names of the others; with `whole`, all of them."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, (*_, group, about) in (*VERBS.items(), *GROUPS.items()):
        groups.setdefault(group, []).append((name, about))
    lines = ["Usage: yoro VERB ...", "", *textwrap.wrap(ABOUT, 80), ""]
    for group, verbs in groups.items() if whole else [(DAILY, groups[DAILY])]:
        lines += [f"{group}:", *(f"  {name:<11}{about}" for name, about in verbs), ""]
    if not whole:
        others = ", ".join(name for group, verbs in groups.items() if group != DAILY for name, _ in verbs)
        lines += ["To begin:", "  yoro fit photos/ --out mine.yoro", "  yoro predict mine.yoro new/", ""]
        lines += [*textwrap.wrap(f"Also: {others}; `yoro --help-all` says what they do.", 80, break_on_hyphens=False)]
    lines += ["`yoro VERB --help` shows the options of a verb, --help-all those for experts too."]
    return "\n".join([*lines, "--version prints the version; --debug, with any verb, the traceback of an error."])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with 0, 1 (failure), 2 (usage) or 130 (interrupted)."""
    refuse_telemetry()
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    try:
        if words[:1] in (["--version"], ["version"]):
            print_text(f"yoro {__version__}")
        elif words[:1] in ([], ["-h"], ["--help"], ["--help-all"]):
            print_text(overview(whole=words[:1] == ["--help-all"]))
        else:
            from yoro.cli.parser import run_verb

            run_verb(words, debug)
        sys.stdout.flush()
    except UsageError as error:
        known = f"{words[0]} " if words and words[0] in {**VERBS, **GROUPS, **EARLIER} else ""
        _fail(f"{one_line(error)} Try `yoro {known}--help`.", 2)
    except BrokenPipeError:  # the reader of a pipe has gone, as `yoro predict ... | head` does
        abandon_stdout()
        sys.exit(1)
    except KeyboardInterrupt as interrupt:
        at_end = words[:1] and words[0] in WRITE_AT_END and "--fix" not in words
        _fail(str(interrupt) or f"interrupted.{' Nothing was written.' if at_end else ''}", 130)
    except Exception as error:
        memory = _lacks_memory(error)
        if debug or not (memory or isinstance(error, YoroError | OSError)):
            raise
        abandon_stdout()
        said = one_line(error)
        if memory:
            said = "out of memory. A smaller --batch-size needs less."
        elif isinstance(error, IsADirectoryError):
            said = f"{error.filename} is a folder, not a file."
        elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
            where = f" for {error.filename}" if error.filename else ""
            said = f"No space is left on the device{where}; the output is incomplete."
        _fail(said, 1)
    if not words:
        sys.exit(2)


def check_address_space() -> None:
    """Refuse a memory limit under which numpy and ONNX Runtime would abort the process while loading."""
    known, needed = address_space(), LEAST_MEMORY + cores() * MEMORY_PER_CORE
    if known and known[1] < needed:
        said = f"The memory limit is {known[1] // 2**20:,} MB (ulimit -v); at least {needed // 2**20:,} MB are needed."
        raise YoroError(f"{said} Raise it, or set it to unlimited.")


def _lacks_memory(error: Exception) -> bool:
    """Whether an error comes from a lack of memory, which libraries report in many ways."""
    if isinstance(error, YoroError):
        return False
    told, known = str(error).lower(), address_space()
    near = known is not None and known[0] > NEAR * known[1]
    return isinstance(error, MemoryError) or any(sign in told for sign in NO_MEMORY) or near


def _fail(text: str, code: int) -> None:
    say(f"yoro: {text}")
    sys.exit(code)
