import { describeContentStore } from "../testing/content-store.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createRegistryFiles } from "./registry-files.ts";

describeContentStore("the registry's files", async (t) =>
  createRegistryFiles(await temporaryDirectory(t)),
);
