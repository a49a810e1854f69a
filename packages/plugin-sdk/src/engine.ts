// A container engine, for plugins whose sandbox has one.

export * from "@exclave/machine/engine";
