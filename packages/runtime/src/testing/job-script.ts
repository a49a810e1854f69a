// What a job in a test does: a few words any runtime can act out, or shell where programs are real.

export type JobScript = SpokenScript | ProgramText;

export interface SpokenScript {
  /** Lines of output, first of all. */
  readonly says: readonly string[];
  /** By itself, or only when it is signalled. */
  readonly ends: { readonly exit: number } | "on-sigterm" | "on-sigkill";
}

export interface ProgramText {
  readonly interpreter: string;
  readonly text: string;
}

export function shell(text: string): ProgramText {
  return { interpreter: "/bin/sh", text };
}

/** The script as the text of an executable file. */
export function programText(script: JobScript): string {
  if ("text" in script) return `#!${script.interpreter}\n${script.text}\n`;
  const { says, ends } = script;
  const hang = "while :; do sleep 0.05; done";
  const lines = says.map((line) => `echo '${line}'`);
  const trap = ends === "on-sigkill" ? ["trap '' TERM"] : [];
  const end = typeof ends === "string" ? hang : `exit ${ends.exit}`;
  return ["#!/bin/sh", ...trap, ...lines, end, ""].join("\n");
}
