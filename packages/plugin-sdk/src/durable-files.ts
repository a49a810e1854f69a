// Durable files alone, for a program of a plugin that has to stay small: nothing else is imported with it.

export * from "@exclave/machine/durable-files-sync";
