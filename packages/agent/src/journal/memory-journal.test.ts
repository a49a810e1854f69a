import { describeJournal } from "../testing/journal-contract.ts";
import { createMemoryJournal } from "./memory-journal.ts";

describeJournal("the memory journal", async () => {
  const journal = createMemoryJournal({ journalId: "memory" });
  return { journal, reopen: () => journal };
});
