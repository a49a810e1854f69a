export * from "./program/exit-codes.ts";
export * from "./program/program.ts";
