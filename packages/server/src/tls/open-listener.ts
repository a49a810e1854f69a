// The listener's TLS, put together: what was planned, the certificate it begins with, and whoever keeps
// that one current.

import type { Timers } from "@exclave/api";
import { LISTEN_TLS_VERSION, type ListenTls } from "@exclave/oci";
import type { Logger } from "pino";
import { type AgentCertificates, createAgentCertificates } from "./agent-certificates.ts";
import { type Authority, openAuthority } from "./authority.ts";
import { type KeptCertificate, keepCertificate } from "./keep-certificate.ts";
import { hostsOf, type ListenerPlan, type Shown, showFiles, showOwn } from "./listener-tls.ts";

export interface ListenerOptions {
  readonly plan: ListenerPlan;
  readonly host: string;
  readonly publicUrl?: string | undefined;
  /** The directory of the server's keys. */
  readonly keys: string;
  readonly now: () => number;
  readonly timers: Pick<Timers, "every">;
  readonly log: Logger;
}

export interface Listener {
  readonly scheme: "http" | "https";
  /** Undefined for plain HTTP. */
  readonly tls: ListenTls | undefined;
  /** Of agents; undefined for plain HTTP. */
  readonly certificates: AgentCertificates | undefined;
  /** That issues for agents, and for this server unless a certificate was brought; undefined for plain HTTP. */
  readonly authority: ListenerAuthority | undefined;
  /** Of the authority that agents and people are to pin. */
  caFingerprint(): string | undefined;
  /** Keeps the certificate of this server current; `look` does it at once. */
  keep(server: SecureServer): KeptCertificate | undefined;
}

export interface ListenerAuthority {
  readonly held: Authority;
  /** Whether agents and people hold the server against it. */
  readonly isPinned: boolean;
  /** It was replaced, or the old one retired: the listener follows, and so does whoever asked to be told. */
  changed(): void;
  onChanged(tell: () => void): void;
  /** Follows what another server has changed. */
  refresh(): Promise<void>;
}

interface SecureServer {
  setSecureContext(options: ListenTls): void;
}

export async function openListener(options: ListenerOptions): Promise<Listener> {
  const { plan, host, publicUrl, keys, now, timers, log } = options;
  if (plan.kind === "plain") {
    return {
      scheme: "http",
      tls: undefined,
      certificates: undefined,
      authority: undefined,
      caFingerprint: () => undefined,
      keep: () => undefined,
    };
  }
  const authority = await openAuthority({ keys, now });
  const issue = () => showOwn(authority, hostsOf(host, publicUrl));
  const first = plan.kind === "own" ? issue() : await showFiles(plan.files);
  let kept: KeptCertificate | undefined;
  const tellers: (() => void)[] = [];
  const changed = () => {
    kept?.replace();
    for (const tell of tellers) tell();
  };
  return {
    authority: {
      held: authority,
      isPinned: plan.kind === "own",
      changed,
      onChanged: (tell) => void tellers.push(tell),
      async refresh() {
        if (await authority.refresh()) changed();
      },
    },
    scheme: "https",
    tls: listenTls(first, authority),
    certificates: createAgentCertificates(authority),
    caFingerprint: () => (kept ? kept.fingerprint() : first.fingerprint),
    keep(server) {
      const apply = (shown: Shown) => server.setSecureContext(listenTls(shown, authority));
      kept = keepCertificate({ plan, first, issue, apply, now, timers, log });
      return kept;
    },
  };
}

/** Agents' certificates are by this server's own authority, whosever the server's is. */
function listenTls({ context: { cert, key } }: Shown, authority: Authority): ListenTls {
  const ca = authority.trusted().map((one) => one.toString());
  return { cert, key, ca, minVersion: LISTEN_TLS_VERSION };
}
