"""Draws the pictures of the README and of these pages, from data that come with scikit-learn: `make pictures`.

Pages are photographed by Chromium, which must be on the path. The exported one runs with onnxruntime-web, which `make
pictures` installs by npm. `make_pictures.py CLOTHES` draws the first picture of the README, from a clone of
github.com/alexeygrigorev/clothing-dataset-small (CC0).
"""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

import yoro
from yoro.research.comparing import comparison_html
from yoro.web.browser_runtime import find_runtime
from yoro.web.page_export import export_web

TESTS = Path(__file__).parents[1] / "tests"
sys.path.append(str(TESTS))
from browser import browser, served  # noqa: E402  # as the tests drive it
from desks import desk_at  # noqa: E402
from photos import write_folder  # noqa: E402
from screenshots import shot, tried, views  # noqa: E402
from studios import studio_at  # noqa: E402

IMAGES = Path(__file__).with_name("images")
METHODS = ["bdm", "bdm-diagonal", "flm", "blm", "blm+", "ncm", "knn", "ridge", "logistic", "deep-slda"]
WIDTH = 900  # pixels of a page
STUDIO = {
    "desk-light": "studio.png",
    "desk-dark": "studio-dark.png",
    "phone-light": "studio-phone.png",
    "phone-dark": "studio-phone-dark.png",
}
COLOURS = 256  # of a picture: a page has few, and the file stays small


def main() -> None:
    """Draw all of them."""
    IMAGES.mkdir(exist_ok=True)
    pictures, labels = digits()
    half = len(labels) // 2
    classifier = yoro.fit(pictures[:half], labels[:half])
    report = classifier.report(pictures[half:], labels[half:])
    photograph(report.html, "report.png", 1150)
    compared = classifier.compare(pictures, labels, methods=METHODS, seeds=2)
    photograph(comparison_html(compared), "comparison.png", 905, above=345)  # the plot alone
    write(tutorial(), "tutorial.png")
    exported_page()
    studio_page()
    desk_page()


def digits() -> tuple[np.ndarray, list[str]]:
    """800 handwritten digits as pictures, in a drawn order."""
    data = load_digits()
    chosen = np.random.default_rng(0).permutation(len(data.target))[:800]
    pictures = np.rint(data.images[chosen] * (255 / 16)).astype(np.uint8)
    return pictures.repeat(8, axis=1).repeat(8, axis=2), [f"digit {label}" for label in data.target[chosen]]


def tutorial() -> Image.Image:
    """What the tutorial's model answers: new crops of two photographs, with the answer and its probability."""
    draw = random.Random(0)
    photographs = dict(zip(("temple", "flower"), map(Image.fromarray, load_sample_images().images), strict=True))

    def crops(count: int) -> tuple[list[Image.Image], list[str]]:
        cut = []
        for name in photographs:
            for _ in range(count):
                x, y = draw.randrange(480), draw.randrange(267)
                cut.append((photographs[name].crop((x, y, x + 160, y + 160)), name))
        return [image for image, _ in cut], [name for _, name in cut]

    classifier = yoro.fit(*crops(16))
    new, _ = crops(3)
    answers = classifier.to_frame(new)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.75), layout="constrained")
    for place, image in enumerate(new):
        axes = figure.add_subplot(1, len(new), place + 1)
        axes.imshow(np.asarray(image))
        axes.set_title(f"{answers['label'][place]}, {100 * answers['probability'][place]:.0f} %", fontsize=10)
        axes.set_axis_off()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return Image.open(stream).convert("RGB")


def clothes(folder: Path, columns: int = 6) -> Image.Image:
    """Test photographs of ten kinds of clothes, drawn at random, with the answers of a fit to 40 of each kind."""
    from matplotlib.figure import Figure

    classifier = yoro.fit(folder / "train", shots=40)
    print(classifier, classifier.evaluate(folder / "test").headline())
    files = sorted((folder / "test").glob("*/*.jpg"))
    new = [(path, path.parent.name) for path in random.Random(0).sample(files, 2 * columns)]
    answers = classifier.to_frame([path for path, _ in new])
    figure = Figure(figsize=(9, 3.7), layout="constrained")
    for place, ((path, kind), label, share) in enumerate(
        zip(new, answers["label"], answers["probability"], strict=True)
    ):
        axes = figure.add_subplot(2, columns, place + 1)
        photo = Image.open(path).convert("RGB")
        side = min(photo.size)
        left, top = (photo.width - side) // 2, (photo.height - side) // 2
        axes.imshow(np.asarray(photo.crop((left, top, left + side, top + side)).resize((280, 280))))
        wrong = "" if label == kind else f"\n(is {kind})"
        axes.set_title(f"{label}, {100 * share:.0f} %{wrong}", fontsize=10, color="#b00020" if wrong else "black")
        axes.set_axis_off()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return Image.open(stream).convert("RGB")


def exported_page() -> None:
    """The page of `yoro export --web` with answers, at the width of a desktop and of a phone."""
    draw = random.Random(1)
    photographs = dict(zip(("temple", "flower"), map(Image.fromarray, load_sample_images().images), strict=True))

    def crop(name: str) -> Image.Image:
        x, y = draw.randrange(480), draw.randrange(267)
        return photographs[name].crop((x, y, x + 160, y + 160))

    classifier = yoro.fit([crop(name) for name in photographs for _ in range(24)], ["temple"] * 24 + ["flower"] * 24)
    with tempfile.TemporaryDirectory() as folder:
        site, files = Path(folder, "site"), []
        export_web(classifier, site, find_runtime(TESTS / "web" / "node_modules"))
        for i, name in enumerate(("flower", "temple", "temple", "flower")):
            files.append(Path(folder, f"photo {i + 1}.jpg"))
            crop(name).save(files[-1], quality=95)
        files.append(Path(folder, "scribble.png"))
        Image.fromarray(digits()[0][0]).resize((160, 160)).save(files[-1])
        with served(site) as address, browser() as page:
            for name, width, phone in (("web.png", WIDTH, False), ("web-phone.png", 390, True)):
                page.resize(width, 800, phone=phone, dark=phone)
                page.open(address)
                page.until("document.documentElement.dataset.state === 'ready'")
                page.give("#files", files)
                page.until(f"document.querySelectorAll('#list .bars').length === {len(files)}")
                page.until("document.getElementById('offline').textContent !== ''")
                page.photograph(Path(folder, name))
                write(Image.open(Path(folder, name)).convert("RGB"), name)


def studio_page() -> None:
    """The studio with photos of four things, one of them tried, at the width of a desktop and of a phone."""
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        photos = write_folder(Path(folder, "photos"), count=12)
        with studio_at(Path(folder, "work"), photos) as studio:
            studio.settled()
            for view in views(page, studio):
                tried(page, photos / "cat" / "003.jpg")
                shot(page, Path(folder, f"{view}.png"), whole=False)
                picture = Image.open(Path(folder, f"{view}.png")).convert("RGB")
                if picture.width > WIDTH:
                    picture = picture.resize((WIDTH, WIDTH * picture.height // picture.width), Image.Resampling.LANCZOS)
                write(picture, STUDIO[view])


def desk_page() -> None:
    """The desk with photos of four things: two groups named, a proposal to check."""
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        photos, shown = write_folder(Path(folder, "pile"), count=16), Path(folder, "desk.png")
        with desk_at(photos, "--into", Path(folder, "photos")) as desk:
            for _ in range(2):
                group = desk.state()["groups"][0]["group"]
                members = desk.photos("group", group)
                label = Path(members[0]["name"]).parent.name
                strangers = [photo["row"] for photo in members if Path(photo["name"]).parent.name != label]
                desk.step("name", group=group, label=label)
                desk.step("throw-out", group=group, rows=strangers or [members[-1]["row"]])
            desk.learned()
            page.resize(1280, 900)
            page.open(f"{desk.client.base_url}/desk/")
            page.until("return document.querySelectorAll('#checks li').length > 1")
            page.until("return document.querySelectorAll('#gallery li').length > 1")
            page.click("#gallery li:nth-child(3)")
            page.until("return [...document.querySelectorAll('#gallery img')].every((image) => image.complete)")
            page.photograph(shown, whole=False)
        picture = Image.open(shown).convert("RGB")
        write(picture.resize((WIDTH, WIDTH * picture.height // picture.width), Image.Resampling.LANCZOS), "desk.png")


def photograph(page: str, name: str, height: int, above: int = 0) -> None:
    """The head of a page down to a height, without what is above, as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Chromium photographs the pages and was not found: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        file, shot = Path(folder, "page.html"), Path(folder, "shot.png")
        file.write_text(page)
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{height}"]
        subprocess.run([browser, *words, f"--screenshot={shot}", file.as_uri()], check=True, capture_output=True)
        write(Image.open(shot).convert("RGB").crop((0, above, WIDTH, height)), name)


def write(picture: Image.Image, name: str) -> None:
    """A PNG of few colours."""
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)
    print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size // 1024} kB")


if __name__ == "__main__":
    main() if len(sys.argv) < 2 else write(clothes(Path(sys.argv[1])), "photos.png")
