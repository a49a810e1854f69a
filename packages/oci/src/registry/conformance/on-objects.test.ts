// The same sentences of the specification, held by a registry whose content is in an object store.

import { createMemoryObjectStore } from "../../objects/memory-object-store.ts";
import { keepInObjects } from "../testing/open-registry.ts";

keepInObjects(() => createMemoryObjectStore());

await import("./discovery.test.ts");
await import("./management.test.ts");
await import("./pull.test.ts");
await import("./push-blobs.test.ts");
await import("./push-manifests.test.ts");
