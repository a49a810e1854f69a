// Whether a pattern is found in a text, in time that is the text's length times the pattern's size, whatever
// both say: all ways to match are followed side by side (Thompson), none is tried and taken back.

import type { Budget } from "../budget.ts";
import { Failure, unreachable } from "../failure.ts";
import { PATTERN_STATES_MAX } from "../limits.ts";
import { type Letters, WORD } from "./letters.ts";
import { type PatternNode, type Place, parsePattern } from "./parse-pattern.ts";

/** Throws `invalid` when the pattern is none, `too_large` when it or the work is over its limit. */
export function matchesPattern(source: string, text: string, budget: Budget): boolean {
  return run(compiled(source, budget), text, budget);
}

type State =
  | { readonly kind: "letter"; readonly letters: Letters; readonly next: number }
  | { readonly kind: "place"; readonly place: Place; readonly next: number }
  | { readonly kind: "split"; readonly targets: readonly number[] }
  | { readonly kind: "found" };

interface Program {
  readonly states: readonly State[];
  readonly start: number;
}

const KEPT_MAX = 50;
const kept = new Map<string, Program>();

/** The same few patterns are asked about many values. */
function compiled(source: string, budget: Budget): Program {
  const known = kept.get(source);
  if (known) return known;
  budget.spend(source.length + 1);
  const program = compile(parsePattern(source));
  budget.spend(program.states.length);
  if (kept.size >= KEPT_MAX) kept.clear();
  kept.set(source, program);
  return program;
}

/** From the end to the beginning, so that each state knows the one after it. */
function compile(pattern: PatternNode): Program {
  const states: State[] = [{ kind: "found" }];
  let visits = 0;
  return { start: before(pattern, 0), states };

  function add(state: State): number {
    states.push(state);
    return states.length - 1;
  }

  function before(node: PatternNode, next: number): number {
    // Counted repeats multiply, of nothing too: visits are counted as well as states.
    if (++visits > PATTERN_STATES_MAX * 4 || states.length > PATTERN_STATES_MAX) {
      throw new Failure("too_large", `a pattern has at most ${PATTERN_STATES_MAX} states`);
    }
    switch (node.kind) {
      case "letter":
        return add({ kind: "letter", letters: node.letters, next });
      case "place":
        return add({ kind: "place", place: node.place, next });
      case "sequence":
        return node.parts.reduceRight((after, part) => before(part, after), next);
      case "choice":
        return add({
          kind: "split",
          targets: node.options.map((option) => before(option, next)),
        });
      case "repeat":
        return repeat(node, next);
      default:
        return unreachable(node);
    }
  }

  function repeat(
    { node, min, max }: Extract<PatternNode, { kind: "repeat" }>,
    next: number,
  ): number {
    let entry = next;
    if (max === Infinity) {
      // The loop's head is known before what leads back to it.
      const targets: number[] = [];
      entry = add({ kind: "split", targets });
      targets.push(before(node, entry), next);
    } else {
      for (let count = min; count < max; count++) {
        entry = add({ kind: "split", targets: [before(node, entry), next] });
      }
    }
    for (let count = 0; count < min; count++) entry = before(node, entry);
    return entry;
  }
}

function run({ states, start }: Program, text: string, budget: Budget): boolean {
  const seenAt = new Int32Array(states.length).fill(-1);
  let here: number[] = [];
  let isFound = false;

  for (let at = 0; ; ) {
    const code = text.codePointAt(at);
    const waiting = here;
    here = [];
    for (const state of waiting) enter(state, at);
    // A match may begin anywhere.
    enter(start, at);
    budget.spend(here.length + 1);
    if (isFound) return true;
    if (code === undefined) return false;
    here = here.flatMap((index) => {
      const state = states[index];
      return state?.kind === "letter" && state.letters(code) ? [state.next] : [];
    });
    at += code > 0xffff ? 2 : 1;
  }

  /** With everything that follows without reading a letter. */
  function enter(first: number, at: number): void {
    const pending = [first];
    for (let index = pending.pop(); index !== undefined; index = pending.pop()) {
      const state = states[index];
      if (!state || seenAt[index] === at) continue;
      seenAt[index] = at;
      if (state.kind === "found") isFound = true;
      else if (state.kind === "split") pending.push(...state.targets);
      else if (state.kind === "letter") here.push(index);
      else if (isAt(state.place, text, at)) pending.push(state.next);
    }
  }
}

function isAt(place: Place, text: string, at: number): boolean {
  switch (place) {
    case "start":
      return at === 0;
    case "end":
      return at === text.length;
    case "word-edge":
      return isWord(text, at - 1) !== isWord(text, at);
    case "no-word-edge":
      return isWord(text, at - 1) === isWord(text, at);
    default:
      return unreachable(place);
  }
}

function isWord(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return !Number.isNaN(code) && WORD(code);
}
