// Changes a document in one place, by its structure: a value of the same kind but another one, a
// field gone, doubled, renamed or moved, a list longer, shorter or in another order. Every mutant
// differs from what it was made of. One seed gives one series.

import type { Dice } from "../simulation/dice.ts";

/** One of these; there has to be one. */
export function pickOf<Item>(dice: Dice, items: readonly Item[]): Item {
  if (items.length === 0) throw new RangeError("there is nothing to pick from");
  return items[dice.below(items.length)] as Item;
}

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };
export type Path = readonly (string | number)[];

/** Every place in a document, leaves and inner ones alike; the root is not a place. */
export function placesIn(value: Json, path: Path = []): Path[] {
  const own = path.length === 0 ? [] : [path];
  if (Array.isArray(value)) {
    return [...own, ...value.flatMap((item: Json, at) => placesIn(item, [...path, at]))];
  }
  if (typeof value !== "object" || value === null) return own;
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, item]) => placesIn(item, [...path, key])),
  ];
}

export function valueAt(value: Json, path: Path): Json | undefined {
  return path.reduce<Json | undefined>(
    (inner, key) => (inner as Record<string | number, Json> | undefined)?.[key],
    value,
  );
}

/** With another value there; undefined takes the place away. */
export function withValue(value: Json, path: Path, change: Json | undefined): Json {
  const [key, ...rest] = path;
  if (key === undefined) return change ?? null;
  if (Array.isArray(value)) {
    const list: Json[] = [...value];
    if (rest.length === 0 && change === undefined) return list.toSpliced(Number(key), 1);
    list[Number(key)] = withValue(list[Number(key)] ?? null, rest, change);
    return list;
  }
  const record = { ...(value as Record<string, Json>) };
  if (rest.length === 0 && change === undefined) delete record[key];
  else record[key] = withValue(record[key] ?? null, rest, change);
  return record;
}

/** A document that differs from this one in that place. */
export function mutateAt(value: Json, path: Path, dice: Dice): Json {
  for (let tries = 0; ; tries++) {
    const changed = withValue(value, path, another(valueAt(value, path) ?? null, dice));
    if (tries > 50) return withValue(value, path, "mutated");
    if (JSON.stringify(changed) !== JSON.stringify(value)) return changed;
  }
}

function another(value: Json, dice: Dice): Json | undefined {
  const ways = [() => undefined, () => ofKind(value, dice), () => ofKind(value, dice)];
  return pickOf(dice, ways)();
}

function ofKind(value: Json, dice: Dice): Json {
  if (typeof value === "boolean") return !value;
  if (typeof value === "number")
    return pickOf(dice, [value + 1, value - 1, -value, 0, value * 2, 2 ** 53 - 1]);
  if (typeof value === "string") return anotherText(value, dice);
  if (value === null) return pickOf<Json>(dice, [0, "", []]);
  if (Array.isArray(value)) return anotherList(value, dice);
  return anotherRecord(value as { readonly [key: string]: Json }, dice);
}

/** What looks like a digest, an id or a name becomes another of the same look. */
function anotherText(text: string, dice: Dice): string {
  const hex = /^(sha256:)([0-9a-f]{64})$/.exec(text);
  if (hex) {
    const at = dice.below(64);
    const digit = pickOf(
      dice,
      "0123456789abcdef".split("").filter((one) => one !== hex[2]?.[at]),
    );
    return `${hex[1]}${hex[2]?.slice(0, at)}${digit}${hex[2]?.slice(at + 1)}`;
  }
  if (/^[a-z][a-z2-7]{16}$/.test(text)) {
    return `${text.slice(0, -1)}${text.endsWith("b") ? "c" : "b"}`;
  }
  const letter = String.fromCharCode(97 + dice.below(26));
  const at = dice.below(text.length + 1);
  return pickOf(dice, [
    `${text.slice(0, at)}${letter}${text.slice(at)}`,
    `${text.slice(0, at)}${text.slice(at + 1)}`,
    text.toUpperCase(),
    `${text}/../${text}`,
    "",
  ]);
}

function anotherList(list: readonly Json[], dice: Dice): Json {
  const [first] = list;
  if (first === undefined) return [pickOf<Json>(dice, [{}, "x", 1])];
  return pickOf<Json>(dice, [
    [...list, first],
    list.slice(1),
    [],
    [...list, {}],
    list.toReversed(),
  ]);
}

function anotherRecord(record: { readonly [key: string]: Json }, dice: Dice): Json {
  const keys = Object.keys(record);
  const key = keys.length > 0 ? pickOf(dice, keys) : undefined;
  if (key === undefined) return { added: 1 };
  const { [key]: moved, ...rest } = record;
  return pickOf<Json>(dice, [rest, { ...rest, [`${key}x`]: moved ?? null }, {}, []]);
}
