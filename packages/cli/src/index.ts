export * from "./program/program.ts";
