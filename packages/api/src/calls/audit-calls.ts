// The record.

import { Envelope } from "@exclave/core";
import { z } from "zod";
import { AuditView } from "../resources.ts";
import { get, none } from "./call-shapes.ts";

export const listAudit = get({
  name: "listAudit",
  path: "/v1/audit",
  access: "viewer",
  summary: "The record, oldest first from `after`",
  params: none,
  query: z.object({
    limit: z.coerce.number().int().min(1).max(5000).default(200),
    after: z.coerce.number().int().min(0).optional(),
    subject: z.string().optional(),
    newest: z.stringbool().default(false),
  }),
  response: z.object({
    items: z.array(AuditView),
    next: z.string().nullable(),
    size: z.int(),
    head: z.string(),
  }),
});

export const getCheckpoint = get({
  name: "getCheckpoint",
  path: "/v1/audit/checkpoint",
  access: "viewer",
  summary: "A signed checkpoint of the record, and every version of the trust document",
  params: none,
  query: none,
  response: z.object({ checkpoint: Envelope, trust: z.array(Envelope) }),
});
