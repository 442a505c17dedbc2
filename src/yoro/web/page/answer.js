// What an answer says: probabilities and the out-of-distribution score (strangeness) in, words out.

// The share of fitted photos that are at least as strange, this one counted in.
export function typicality(strangeness, fitted) {
  let [low, high] = [0, fitted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fitted[middle] < strangeness) low = middle + 1;
    else high = middle;
  }
  return (1 + fitted.length - low) / (1 + fitted.length);
}

// Classes and probabilities, the best first; of equals the earlier.
export function ranked(classes, probabilities) {
  const order = Array.from(probabilities, (_, i) => i).sort((a, b) => probabilities[b] - probabilities[a] || a - b);
  return order.map((i) => ({ name: classes[i], probability: probabilities[i] }));
}

// An answer as it is shown, listed and saved; that of a service is ranked and has its typicality.
export function judged(facts, answer, share) {
  const best = answer.best ?? ranked(facts.classes, answer.probabilities);
  const here = () => (facts.fitted && answer.strangeness !== null ? typicality(answer.strangeness, facts.fitted) : null);
  const typical = answer.best ? answer.typical : here();
  return { best, typical, unknown: typical !== null && typical <= share };
}

// A share in per cent that is rounded to all or nothing only where it is that.
export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}

export function sentence({ best, unknown }) {
  return unknown ? `Unknown, closest to ${best[0].name}` : `${best[0].name}, ${percent(best[0].probability)}`;
}

// A table that spreadsheets take: fields with a mark in them stand in quotes.
export function csv(rows) {
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return rows.map((row) => `${row.map((value) => quoted(String(value))).join(",")}\r\n`).join("");
}
