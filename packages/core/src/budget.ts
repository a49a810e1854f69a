// An amount of work. Who has spent it is refused, however the input was made to ask for more.

import { Failure } from "./failure.ts";

export interface Budget {
  /** Throws `too_large` once more was spent than there was, then and ever after. */
  spend(steps: number): void;
  readonly isSpent: boolean;
}

export function createBudget(stepsMax: number, what: string): Budget {
  let left = stepsMax;
  return {
    spend(steps) {
      left -= steps;
      if (left >= 0) return;
      throw new Failure("too_large", `${what} takes more work than the limit of ${stepsMax} steps`);
    },
    get isSpent() {
      return left < 0;
    },
  };
}
