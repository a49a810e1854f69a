// What a value of an input means, by the type its app declares: people write text, on a command line
// as in a form.

import type { AppConfig, InputDeclaration } from "./app-config.ts";

/** Text that spells a value of the declared type is that value; everything else stays what it is. */
export function inputValue({ type }: Pick<InputDeclaration, "type">, given: unknown): unknown {
  if (typeof given !== "string") return given;
  if (type === "boolean" && (given === "true" || given === "false")) return given === "true";
  if (type === "number" && NUMBER.test(given)) return Number(given);
  return given;
}

const NUMBER = /^-?\d{1,15}(\.\d{1,15})?$/;

/** Every declared input that has a value: the install's own, or the app's default. */
export function inputValues(
  { inputs }: Pick<AppConfig, "inputs">,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return Object.fromEntries(
    inputs.flatMap((input) => {
      const { name, default: usual } = input;
      const value = inputValue(input, given[name]) ?? usual;
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
