// The contract of object stores, kept by a real one.

import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { describeObjectStore } from "../testing/describe-object-store.ts";
import { hasVersitygw, startVersitygw, type Versitygw } from "../testing/versitygw.ts";
import { createS3ObjectStore } from "./s3-object-store.ts";

let gateway: Promise<Versitygw> | undefined;
after(async () => (await gateway)?.close());

describeObjectStore(
  "versitygw",
  async (t) => {
    gateway ??= startVersitygw();
    const { settings } = await gateway;
    const store = createS3ObjectStore({ settings: { ...settings, prefix: `${randomUUID()}/` } });
    t.after(() => store.close());
    return store;
  },
  { skip: hasVersitygw() ? undefined : "versitygw is not on this machine" },
);
