// Sets of letters, as a question about one code point.

export type Letters = (code: number) => boolean;

export function range(from: number, to: number): Letters {
  return (code) => code >= from && code <= to;
}

export function anyOf(sets: readonly Letters[]): Letters {
  return (code) => sets.some((has) => has(code));
}

export function except(letters: Letters): Letters {
  return (code) => !letters(code);
}

const DIGITS = range(48, 57);
export const WORD: Letters = anyOf([DIGITS, range(65, 90), range(97, 122), range(95, 95)]);
export const LINE_ENDS: Letters = anyOf([range(10, 10), range(13, 13), range(0x2028, 0x2029)]);

const BLANK = /^\s$/u;
const blanks: Letters = (code) => BLANK.test(String.fromCodePoint(code));

export const ESCAPED_CLASSES: Readonly<Record<string, Letters>> = {
  d: DIGITS,
  D: except(DIGITS),
  w: WORD,
  W: except(WORD),
  s: blanks,
  S: except(blanks),
};
