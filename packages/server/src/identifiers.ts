// The dice: ids and secrets.

import { createHash, randomBytes } from "node:crypto";
import { AgentId, AppId, InstallId, idFromBytes, JobId, ReleaseId, TokenId } from "@exclave/core";

export const newAppId = (): AppId => AppId.parse(idFromBytes("p", randomBytes(10)));
export const newInstallId = (): InstallId => InstallId.parse(idFromBytes("i", randomBytes(10)));
export const newJobId = (): JobId => JobId.parse(idFromBytes("j", randomBytes(10)));
export const newAgentId = (): AgentId => AgentId.parse(idFromBytes("a", randomBytes(10)));
export const newReleaseId = (): ReleaseId => ReleaseId.parse(idFromBytes("r", randomBytes(10)));
export const newTokenId = (): TokenId => TokenId.parse(idFromBytes("t", randomBytes(10)));

/** 128 bits or more, for whoever is shown it once. */
export const newSecret = (bytes = 16): string => randomBytes(bytes).toString("base64url");

/** How a secret is kept: enough to know it again, not enough to say it. */
export const secretHash = (secret: string): string =>
  createHash("sha256").update(secret).digest("hex");
