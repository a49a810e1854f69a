import { createMemoryStore } from "./memory-store.ts";
import { describeContentStore } from "./testing/content-store.ts";

describeContentStore("the memory store", async () => createMemoryStore());
