import { describeStore } from "../../testing/describe-store.ts";
import { createMemoryStore, newMemoryDisk } from "./memory-store.ts";

describeStore("the store in memory", async () => {
  const disk = newMemoryDisk();
  const open = () => createMemoryStore({ disk });
  return { store: open(), reopen: async () => open() };
});
