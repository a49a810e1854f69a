// The same sentences of the specification, held by a registry whose content is in a real S3-compatible store.

import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { createS3ObjectStore } from "../../objects/s3/s3-object-store.ts";
import { hasVersitygw, startVersitygw } from "../../objects/testing/versitygw.ts";
import { keepInObjects } from "../testing/open-registry.ts";

if (hasVersitygw()) {
  const { settings, close } = await startVersitygw();
  after(close);
  keepInObjects(() => {
    const store = createS3ObjectStore({ settings: { ...settings, prefix: `${randomUUID()}/` } });
    after(() => store.close());
    return store;
  });

  await import("./discovery.test.ts");
  await import("./management.test.ts");
  await import("./pull.test.ts");
  await import("./push-blobs.test.ts");
  await import("./push-manifests.test.ts");
} else {
  console.log("# versitygw is not on this machine: the registry is not tried on a real store");
}
