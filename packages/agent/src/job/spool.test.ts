import { describeSpool } from "../testing/spool-contract.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createMemorySpool } from "./memory-spool.ts";
import { createSpool } from "./spool.ts";

describeSpool("the spool in files", async (t) =>
  createSpool({ directory: await temporaryDirectory(t) }),
);
describeSpool("the spool in memory", async () => createMemorySpool());
