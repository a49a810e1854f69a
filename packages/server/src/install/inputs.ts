// The values of an install's inputs and secrets, against what the app declares.

import {
  type AppConfig,
  canonicalBytes,
  Failure,
  INPUTS_BYTES_MAX,
  inputValue,
  suggest,
} from "@exclave/core";

export type Inputs = Readonly<Record<string, unknown>>;

/** Refuses unknown names, wrong types and missing values, all at once. */
export function checkInputs(app: AppConfig, given: Inputs): void {
  const bytes = canonicalBytes(given).length;
  if (bytes > INPUTS_BYTES_MAX) {
    const limit = `they are sent with every job, and have at most ${INPUTS_BYTES_MAX}`;
    throw new Failure("too_large", `the inputs are ${bytes} bytes: ${limit}`);
  }
  const declared = app.inputs.map(({ name }) => name);
  const unknown = Object.keys(given)
    .filter((name) => !declared.includes(name))
    .map((name) => `${app.app} has no input ${name}${meant(name, declared)}`);
  const wrong = app.inputs.flatMap((input) => {
    const { name, type, required, default: usual, description } = input;
    const value = inputValue(input, given[name]);
    if (value === undefined) {
      if (!required || usual !== undefined) return [];
      return [`the input ${name} is required${description ? ` (${description})` : ""}`];
    }
    return typeof value === type ? [] : [`the input ${name} must be a ${type}`];
  });
  const faults = [...unknown, ...wrong];
  if (faults.length > 0) throw new Failure("invalid", faults.join("; "));
}

/** Secrets an install cannot be without and nothing can give it: what each would need, in words. */
export function missingSecrets({ secrets }: Pick<AppConfig, "secrets">): string[] {
  return secrets
    .filter(({ required, generate }) => required && !generate)
    .map(
      ({ name }) =>
        `the secret ${name} is required, and setting secrets is not built yet; use \`generate\` for it`,
    );
}

export function checkSecrets(app: AppConfig): void {
  const missing = missingSecrets(app);
  if (missing.length > 0) throw new Failure("invalid", missing.join("; "));
}

function meant(name: string, declared: readonly string[]): string {
  const hint = suggest(name, declared);
  return hint === undefined ? "" : `; ${hint}`;
}
