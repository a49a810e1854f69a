import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, listJobs } from "@exclave/api";
import { installView, jobView, page } from "../testing/views.ts";
import { lookAtInstall } from "./wait-install.ts";

test("whoever waits for an install sees the jobs of its sandbox, which no agent of its own runs", async () => {
  const setup = jobView({ component: "sandbox" });
  const queries: unknown[] = [];
  const call: unknown = async (asked: unknown, given: { readonly query?: unknown }) => {
    if (asked !== listJobs) return installView();
    queries.push(given.query);
    return page([setup]);
  };

  const { jobs } = await lookAtInstall({ call } as Client, "acme");

  assert.deepEqual(jobs, [setup]);
  assert.deepEqual(queries, [{ install: "acme", component: "sandbox", limit: 5 }]);
});
