// Something wrong with a file somebody wrote: where, what, and what was probably meant.

export type Path = readonly (string | number)[];

export interface Problem {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
  readonly message: string;
  readonly hint?: string;
  /** Where in the document, for programs. */
  readonly path: Path;
}

/** Something wrong, by path; its line and column follow from the text. */
export interface Finding {
  readonly path: Path;
  readonly message: string;
  readonly hint?: string;
  /** Set when it is this key of the mapping at `path`. */
  readonly key?: string;
  /** Set when it is at this letter of the string at `path`. */
  readonly letter?: number;
}

/** One line for a terminal: `exclave.yaml:7:5: there is no component …; did you mean …?` */
export function formatProblem({ file, line, column, message, hint }: Problem): string {
  return `${file}:${line}:${column}: ${message}${hint ? `; ${hint}` : ""}`;
}

/** `components[2].values.image` */
export function formatPath(path: Path): string {
  return path
    .map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`))
    .join("")
    .replace(/^\./, "");
}
