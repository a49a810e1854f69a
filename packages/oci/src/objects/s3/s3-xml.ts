// The little of XML that a store answers: elements without attributes that matter, found by their names from one end to
// the other. Nothing here goes back over what it has seen.

/** The text of the first element of that name. */
export function elementIn(xml: string, name: string): string | undefined {
  const [first] = elementsIn(xml, name, 1);
  return first === undefined ? undefined : decode(first);
}

/** What is inside of each element of that name, undecoded. */
export function elementsIn(xml: string, name: string, most = Infinity): string[] {
  const [open, close] = [`<${name}>`, `</${name}>`];
  const found: string[] = [];
  for (let at = 0; found.length < most; ) {
    const from = xml.indexOf(open, at);
    const to = from < 0 ? -1 : xml.indexOf(close, from);
    if (to < 0) break;
    found.push(xml.slice(from + open.length, to));
    at = to + close.length;
  }
  return found;
}

export function encode(text: string): string {
  return text.replace(/[<>&"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
};

function decode(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w{2,4}));/g,
    (whole, ten, hex, name) => {
      if (name !== undefined) return NAMED[name] ?? whole;
      const point = ten === undefined ? Number.parseInt(hex, 16) : Number(ten);
      return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
    },
  );
}
