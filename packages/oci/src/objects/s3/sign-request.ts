// AWS Signature Version 4 for a request whose body is known: the header that proves who asks for exactly this.

import { createHash, createHmac } from "node:crypto";

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface RequestToSign {
  readonly method: string;
  /** As it goes over the wire, encoded by `encodePath`. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** `host` and everything else that is to be signed, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Of the body, in hex. */
  readonly bodyHash: string;
}

export interface SigningScope {
  readonly credentials: S3Credentials;
  readonly region: string;
  readonly service: string;
  readonly now: number;
}

/** All headers of the signed request. S3 also wants to be told the hash of the body. */
export function signRequest(
  { method, path, query, headers, bodyHash }: RequestToSign,
  { credentials, region, service, now }: SigningScope,
): Record<string, string> {
  const at = new Date(now).toISOString().replace(/[-:]|\.\d{3}/g, "");
  const day = at.slice(0, 8);
  const { sessionToken } = credentials;
  const signed: Record<string, string> = {
    ...headers,
    "x-amz-date": at,
    ...(service === "s3" && { "x-amz-content-sha256": bodyHash }),
    ...(sessionToken !== undefined && { "x-amz-security-token": sessionToken }),
  };
  const names = Object.keys(signed).sort();
  const canonical = [
    method,
    path,
    encodeQuery(query),
    ...names.map((name) => `${name}:${(signed[name] ?? "").trim().replace(/ +/g, " ")}`),
    "",
    names.join(";"),
    bodyHash,
  ].join("\n");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = ["AWS4-HMAC-SHA256", at, scope, sha256(canonical)].join("\n");
  const key = [day, region, service, "aws4_request"].reduce<string | Buffer>(
    (secret, part) => hmac(secret, part),
    `AWS4${credentials.secretAccessKey}`,
  );
  const signature = hmac(key, toSign).toString("hex");
  const authorization =
    `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}, ` +
    `SignedHeaders=${names.join(";")}, Signature=${signature}`;
  return { ...signed, authorization };
}

export function sha256(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function encodePath(path: string): string {
  return path.split("/").map(encodePart).join("/");
}

export function encodeQuery(query: Readonly<Record<string, string>>): string {
  return Object.entries(query)
    .map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`)
    .sort()
    .join("&");
}

/** Everything but the unreserved characters of RFC 3986, which `encodeURIComponent` is a little laxer about. */
function encodePart(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
