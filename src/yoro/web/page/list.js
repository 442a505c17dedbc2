// The answers as a list of cards. Whatever a stranger wrote is set as text, never as HTML.

import { judged, percent, sentence } from "./answer.js";

const FEW = 5; // classes shown unless all are asked for

// An element of a kind with a class name and a text.
function make(kind, className, text = "") {
  const element = document.createElement(kind);
  element.className = className;
  element.textContent = text;
  return element;
}

function bars(best) {
  const list = make("ul", "bars");
  for (const { name, probability } of best) {
    const row = make("li", "");
    const track = make("div", "track");
    const fill = make("div", "fill");
    const label = make("bdi", "class", name);
    fill.style.width = `${100 * probability}%`;
    track.append(fill);
    track.ariaHidden = "true";
    row.append(label, make("span", "share", percent(probability)), track);
    list.append(row);
  }
  return list;
}

// The verdict and the bars of one answer, into an element that is emptied first.
export function show(element, judgement, all = false) {
  const said = judgement.unknown ? "Unknown" : sentence(judgement);
  const parts = [make("p", "verdict", said)];
  if (judgement.unknown) {
    const why = "It does not look like the training photos. The closest classes:";
    parts.push(make("p", "quiet", why));
  }
  parts.push(bars(all ? judgement.best : judgement.best.slice(0, FEW)));
  element.replaceChildren(...parts);
}

export class AnswerList {
  constructor(element, facts, changed) {
    this.element = element;
    this.facts = facts;
    this.changed = changed;
    this.share = 0;
    this.entries = [];
  }

  // A card that waits for its answer.
  add(path) {
    const card = make("li", "answer");
    const picture = make("div", "blank");
    const words = make("div", "");
    const content = make("div", "");
    const heading = make("div", "row");
    const remove = make("button", "plain remove", "Remove");
    const entry = { path, card, content, picture, answer: null, error: null, all: false };
    remove.type = "button";
    remove.ariaLabel = `Remove ${path}`;
    remove.addEventListener("click", () => this.remove(entry));
    content.append(make("p", "verdict", "Waiting…"));
    heading.append(make("p", "name", path), remove);
    words.append(heading, content);
    card.append(picture, words);
    this.element.append(card);
    this.entries.push(entry);
    this.changed();
    return entry;
  }

  answered(entry, answer) {
    entry.answer = answer;
    if (answer.small) {
      const canvas = make("canvas", "");
      canvas.width = answer.small.width;
      canvas.height = answer.small.height;
      canvas.getContext("2d").drawImage(answer.small, 0, 0);
      canvas.role = "img";
      canvas.ariaLabel = entry.path;
      entry.picture.replaceWith(canvas);
      entry.picture = canvas;
      answer.small.close();
      answer.small = null;
    }
    this.draw(entry);
    this.changed();
  }

  failed(entry, error) {
    entry.error = error;
    entry.card.classList.add("bad");
    entry.content.replaceChildren(make("p", "verdict", "Could not be read"), make("p", "", error));
    this.changed();
  }

  draw(entry) {
    const judgement = judged(this.facts, entry.answer, this.share);
    entry.card.classList.toggle("unknown", judgement.unknown);
    show(entry.content, judgement, entry.all);
    if (judgement.best.length <= FEW) return;
    const more = make("button", "plain", entry.all ? "Show fewer" : `Show all ${judgement.best.length} classes`);
    more.type = "button";
    more.addEventListener("click", () => {
      entry.all = !entry.all;
      this.draw(entry);
      entry.content.querySelector("button").focus();
    });
    entry.content.append(more);
  }

  // From now on this share of photos like the training photos is rejected as unknown.
  redraw(share) {
    this.share = share;
    for (const entry of this.entries) if (entry.answer) this.draw(entry);
  }

  remove(entry) {
    const place = this.entries.indexOf(entry);
    this.entries.splice(place, 1);
    entry.card.remove();
    this.changed();
    const next = this.entries[Math.min(place, this.entries.length - 1)];
    (next?.card.querySelector(".remove") ?? document.getElementById("choose")).focus();
  }

  clear() {
    this.entries = [];
    this.element.replaceChildren();
    this.changed();
  }

  // A row for each answered photo, as `yoro predict` writes them.
  rows() {
    const names = ["path", "label", "probability", ...(this.facts.fitted ? ["typicality"] : [])];
    const answered = this.entries.filter((entry) => entry.answer);
    return [
      names,
      ...answered.map((entry) => {
        const { best, typical, unknown } = judged(this.facts, entry.answer, this.share);
        const figures = [best[0].probability, ...(this.facts.fitted ? [typical] : [])];
        return [entry.path, unknown ? "" : best[0].name, ...figures.map((figure) => figure.toFixed(6))];
      }),
    ];
  }
}
