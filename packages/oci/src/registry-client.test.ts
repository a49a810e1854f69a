import { serveRegistry } from "./registry/serve-registry.ts";
import { createRegistryClient } from "./registry-client.ts";
import { describeContentStore } from "./testing/content-store.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

describeContentStore("the registry client", async (t) => {
  const directory = await temporaryDirectory(t);
  const auth = { kind: "anonymous" } as const;
  const registry = await serveRegistry({ directory, auth, host: "127.0.0.1", port: 0 });
  t.after(() => registry.close());
  const client = createRegistryClient({ url: registry.url });
  t.after(() => client.close());
  return client;
});
