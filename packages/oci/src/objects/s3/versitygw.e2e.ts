// The contract of object stores, kept by a real one.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { delimiter } from "node:path";
import { after } from "node:test";
import { describeObjectStore } from "../testing/describe-object-store.ts";
import { startVersitygw, type Versitygw } from "../testing/versitygw.ts";
import { createS3ObjectStore } from "./s3-object-store.ts";

const isThere = (process.env["PATH"] ?? "")
  .split(delimiter)
  .some((directory) => existsSync(`${directory}/versitygw`));

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
  { skip: isThere ? undefined : "versitygw is not on this machine" },
);
