// One kept sample of every message of the released link version. A later schema must still read
// them: a sample is never edited, only joined by others.

interface Sample {
  readonly side: "agent" | "server";
  readonly frame: Readonly<Record<string, unknown>>;
}

const job = { job: "jaaaaaaaaaaaaaaaa", attempt: 1 };
const digest = `sha256:${"0".repeat(64)}`;

const event = (body: Readonly<Record<string, unknown>>): Sample => ({
  side: "agent",
  frame: { type: "event", seq: 7, body: { at: 1_700_000_000_000, ...body } },
});

export const SAMPLES: Readonly<Record<string, Sample>> = {
  hello: {
    side: "agent",
    frame: {
      type: "hello",
      protos: [1],
      agent: "aaaaaaaaaaaaaaaaa",
      version: "0.1.0",
      platform: "linux-x64",
      runtime: "process",
      capabilities: [],
      keyGeneration: 1,
      bootId: "boot",
      downAcked: 3,
      upHead: 9,
      upFrom: 4,
      journalId: "journal",
      jobs: [{ ...job, state: "running", logOffset: 120 }],
      clockMs: 1_700_000_000_000,
      proof: "AAAA",
    },
  },
  job_accepted: event({ type: "job_accepted", ...job }),
  job_rejected: event({ type: "job_rejected", ...job, code: "replayed", because: "seen before" }),
  job_started: event({ type: "job_started", ...job }),
  job_ended: event({
    type: "job_ended",
    ...job,
    outcome: { kind: "failed", code: "tool", message: "terraform failed" },
    outputs: [{ name: "url", sensitive: false, value: "http://127.0.0.1" }],
    outputsDigest: "abc",
    artifacts: [{ type: "artifact", name: "api", repository: "apps/crm/api", digest }],
    result: { type: "result", ok: false, failure: { code: "tool", message: "terraform failed" } },
    logBytes: 10,
    logSha256: "0".repeat(64),
  }),
  health: event({ type: "health", component: "api", health: "degraded", because: "503" }),
  inventory: event({ type: "inventory", jobs: [{ job: "x", attempt: 1, state: "running" }] }),
  images_published: event({
    type: "images_published",
    images: [{ name: "runner", kind: "runner", repository: "exclave/runner", digest }],
  }),
  checkpoints_want: { side: "server", frame: { type: "checkpoints_want" } },
  checkpoints: {
    side: "agent",
    frame: {
      type: "checkpoints",
      list: [
        {
          payloadType: "application/vnd.exclave.checkpoint.v1+json",
          payload: "e30=",
          signatures: [{ keyid: "k", sig: "AAAA" }],
        },
      ],
    },
  },
  alarm: event({ type: "alarm", code: "signature", because: "no key of ours signed it" }),
  hello_with_trust: {
    side: "agent",
    frame: {
      type: "hello",
      protos: [1],
      agent: "aaaaaaaaaaaaaaaaa",
      version: "0.1.0",
      platform: "linux-x64",
      runtime: "process",
      capabilities: [],
      keyGeneration: 1,
      bootId: "boot",
      downAcked: 3,
      upHead: 9,
      upFrom: 4,
      trustVersion: 2,
      journalId: "journal",
      jobs: [],
      clockMs: 1_700_000_000_000,
      proof: "AAAA",
    },
  },
  trust_changed: event({ type: "trust_changed", version: 2, digest }),
  agent_ack: { side: "agent", frame: { type: "ack", seq: 3 } },
  agent_resend: { side: "agent", frame: { type: "resend", from: 4 } },
  grant_want: { side: "agent", frame: { type: "grant_want", ...job } },
  join_want: { side: "agent", frame: { type: "join_want", ...job } },
  pong: { side: "agent", frame: { type: "pong", id: 1 } },
  pong_with_looks: {
    side: "agent",
    frame: { type: "pong", id: 1, looks: [{ component: "api", agoMs: 1_200 }] },
  },
  challenge: { side: "server", frame: { type: "challenge", nonce: "n" } },
  welcome: {
    side: "server",
    frame: {
      type: "welcome",
      proto: 1,
      sessionEpoch: 2,
      serverTimeMs: 1_700_000_000_000,
      upAcked: 4,
      capabilities: [],
      limits: { logCreditBytes: 262_144, frameBytes: 262_144 },
      pingMs: 20_000,
      reconnectSpreadMs: 1_000,
      logs: [{ ...job, upTo: 100 }],
      checkpoint: { size: 10, head: "0".repeat(64) },
    },
  },
  job_offer: {
    side: "server",
    frame: {
      type: "command",
      seq: 1,
      body: {
        type: "job_offer",
        ...job,
        envelope: {
          payloadType: "application/vnd.exclave.manifest.v1+json",
          payload: "e30=",
          signatures: [{ keyid: "k", sig: "AAAA" }],
        },
      },
    },
  },
  job_cancel: {
    side: "server",
    frame: { type: "command", seq: 2, body: { type: "job_cancel", ...job, graceMs: 10_000 } },
  },
  job_cancel_signed: {
    side: "server",
    frame: {
      type: "command",
      seq: 2,
      body: {
        type: "job_cancel",
        ...job,
        envelope: {
          payloadType: "application/vnd.exclave.cancel.v1+json",
          payload: "e30=",
          signatures: [{ keyid: "k", sig: "AAAA" }],
        },
      },
    },
  },
  server_ack: { side: "server", frame: { type: "ack", seq: 9 } },
  server_resend: { side: "server", frame: { type: "resend", from: 2 } },
  log_ack: { side: "server", frame: { type: "log_ack", ...job, upTo: 100 } },
  grant: {
    side: "server",
    frame: {
      type: "grant",
      ...job,
      grant: { registryUrl: "http://127.0.0.1:1", token: "t", expiresAt: 1_700_000_600_000 },
    },
  },
  grant_refused: { side: "server", frame: { type: "grant", ...job, refused: "not your job" } },
  join: { side: "server", frame: { type: "join", ...job, joinString: "exclave-join-v1.e30" } },
  join_refused: { side: "server", frame: { type: "join", ...job, refused: "given already" } },
  trust: {
    side: "server",
    frame: {
      type: "trust",
      envelope: {
        payloadType: "application/vnd.exclave.trust.v1+json",
        payload: "e30=",
        signatures: [{ keyid: "k", sig: "AAAA" }],
      },
    },
  },
  checkpoint: {
    side: "server",
    frame: {
      type: "checkpoint",
      envelope: {
        payloadType: "application/vnd.exclave.checkpoint.v1+json",
        payload: "e30=",
        signatures: [{ keyid: "k", sig: "AAAA" }],
      },
      heads: [{ size: 10, head: "0".repeat(64) }],
    },
  },
  certificate: {
    side: "server",
    frame: { type: "certificate", certificate: "-----BEGIN CERTIFICATE-----\nAAAA\n" },
  },
  authorities: {
    side: "server",
    frame: { type: "authorities", certificates: ["-----BEGIN CERTIFICATE-----\nAAAA\n"] },
  },
  authorities_kept: { side: "agent", frame: { type: "authorities_kept", fingerprints: [digest] } },
  certificate_kept: {
    side: "agent",
    frame: { type: "certificate_kept", until: 1_700_000_000_000 },
  },
  ping: { side: "server", frame: { type: "ping", id: 1 } },
  drain: {
    side: "server",
    frame: { type: "drain", afterMs: 12_000, because: "the server is stopping" },
  },
  goaway: {
    side: "server",
    frame: { type: "goaway", code: "superseded", because: "a newer connection", retryAfterMs: 0 },
  },
};
