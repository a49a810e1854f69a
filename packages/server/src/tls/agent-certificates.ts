// Client certificates of agents: issued for the key that an agent joined with, and read from the connections
// that agents make with them. Whether one lets its agent in is decided in `certificate-rules.ts`.

import { createPublicKey, type X509Certificate } from "node:crypto";
import { Failure } from "@exclave/core";
import type { AgentRow } from "../store/rows.ts";
import type { Authority } from "./authority.ts";
import type { PresentedCertificate } from "./certificate-rules.ts";

export interface AgentCertificates {
  /** In PEM, of the agent's own key, until then. */
  issue(agent: CertifiedAgent, until: number): string;
  /** What a connection shows of its peer. */
  read(certificate: X509Certificate | undefined): PresentedCertificate;
}

type CertifiedAgent = Pick<AgentRow, "id" | "audience" | "keyGeneration" | "identityKey">;

const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const AGENT_URI = /^URI:exclave:\/\/agent\/([\w-]{1,64})\/([\w-]{1,64})\/(\d{1,9})$/;

export function createAgentCertificates(
  authority: Pick<Authority, "issueAgent" | "trusted">,
): AgentCertificates {
  return {
    issue(agent, until) {
      const { id: name, identityKey } = agent;
      return authority
        .issueAgent({ name, uri: agentUri(agent), key: keyOf(identityKey) }, until)
        .toString();
    },
    read(certificate) {
      if (!certificate) return { kind: "none" };
      // Agents' certificates are issued by the authority itself, with nothing in between.
      const isOurs = authority.trusted().some(({ publicKey }) => certificate.verify(publicKey));
      const isForAgents = certificate.keyUsage?.includes(CLIENT_AUTH) ?? false;
      const [, agent, audience, generation] =
        AGENT_URI.exec(certificate.subjectAltName ?? "") ?? [];
      if (!isOurs || !isForAgents || agent === undefined || audience === undefined) {
        return { kind: "foreign" };
      }
      return {
        kind: "ours",
        agent,
        audience,
        keyGeneration: Number(generation),
        identityKey: spkiOf(certificate),
        notAfter: certificate.validToDate.getTime(),
      };
    },
  };
}

export function agentUri({
  id,
  audience,
  keyGeneration,
}: Omit<CertifiedAgent, "identityKey">): string {
  return `exclave://agent/${id}/${audience}/${keyGeneration}`;
}

function keyOf(identityKey: string) {
  try {
    return createPublicKey({
      key: Buffer.from(identityKey, "base64"),
      format: "der",
      type: "spki",
    });
  } catch (cause) {
    throw new Failure("bug", "an agent joined with a key that cannot be read", { cause });
  }
}

function spkiOf({ publicKey }: X509Certificate): string {
  return publicKey.export({ format: "der", type: "spki" }).toString("base64");
}
