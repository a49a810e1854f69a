// A small S3 in this process, over HTTP on loopback, that can be told to fail: it keeps the contract of object stores
// through our client, and answers what a real one answers on a bad day.

import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { S3Settings } from "../s3/s3-settings.ts";
import { elementsIn, encode } from "../s3/s3-xml.ts";

/** `lost` does what was asked and breaks the connection instead of answering. */
export type S3Fault =
  | { readonly kind: "answer"; readonly status: number; readonly code?: string }
  | { readonly kind: "cut" | "lost" }
  | { readonly kind: "late"; readonly ms: number };

export interface FakeS3 {
  readonly settings: S3Settings;
  /** Every request that came, as method, path and query. */
  readonly requests: string[];
  readonly objects: Map<string, { readonly bytes: Buffer; readonly modifiedAt: number }>;
  /** Asked before each request is done. */
  fault: (request: string) => S3Fault | undefined;
  /** As if it was not there, until it is back. */
  isAway: boolean;
  close(): Promise<void>;
}

const PAGE = 1_000;

export async function startFakeS3(): Promise<FakeS3> {
  const uploads = new Map<string, { key: string; at: number; parts: Map<number, Buffer> }>();
  const server = createServer((request, response) => {
    void serve(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const fake: FakeS3 = {
    settings: {
      bucket: "tenant",
      prefix: "a/prefix/",
      region: "eu-test-1",
      endpoint: new URL(`http://127.0.0.1:${port}`),
      credentials: { accessKeyId: "key", secretAccessKey: randomUUID() },
    },
    requests: [],
    objects: new Map(),
    fault: () => undefined,
    isAway: false,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return fake;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = `${request.method} ${request.url}`;
    fake.requests.push(name);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const fault = fake.isAway ? ({ kind: "cut" } as const) : fake.fault(name);
    if (fault?.kind === "cut") return void response.destroy();
    if (fault?.kind === "answer") return refuse(response, fault.status, fault.code ?? "Broken");
    if (fault?.kind === "late") await sleep(fault.ms);
    const said = createHash("sha256").update(body).digest("hex");
    if (request.headers["x-amz-content-sha256"] !== said) {
      return refuse(response, 400, "XAmzContentSHA256Mismatch");
    }
    const url = new URL(request.url ?? "/", "http://fake");
    const [, bucket, ...rest] = url.pathname.split("/").map(decodeURIComponent);
    if (bucket !== fake.settings.bucket) return refuse(response, 404, "NoSuchBucket");
    const silent = fault?.kind === "lost" ? new Silent(response) : response;
    act(request, silent as ServerResponse, { key: rest.join("/"), query: url.searchParams, body });
  }

  function act(
    request: IncomingMessage,
    response: ServerResponse,
    { key, query, body }: { key: string; query: URLSearchParams; body: Buffer },
  ): void {
    const uploadId = query.get("uploadId") ?? "";
    if (key === "") {
      return query.has("uploads") ? listUploads(response, query) : list(response, query);
    }
    switch (request.method) {
      case "PUT": {
        const part = Number(query.get("partNumber"));
        const upload = uploads.get(uploadId);
        if (query.has("uploadId") && !upload) return refuse(response, 404, "NoSuchUpload");
        if (upload) upload.parts.set(part, body);
        else fake.objects.set(key, { bytes: body, modifiedAt: Date.now() });
        return answer(response, 200, "", {
          etag: `"${createHash("md5").update(body).digest("hex")}"`,
        });
      }
      case "POST": {
        if (query.has("uploads")) {
          const id = randomUUID();
          uploads.set(id, { key, at: Date.now(), parts: new Map() });
          return answer(response, 200, `<X><UploadId>${id}</UploadId></X>`);
        }
        const upload = uploads.get(uploadId);
        if (!upload) return refuse(response, 404, "NoSuchUpload");
        const parts = elementsIn(String(body), "PartNumber").map((n) =>
          upload.parts.get(Number(n)),
        );
        const isSmall = parts.slice(0, -1).some((part) => (part?.length ?? 0) < 5 * 1024 * 1024);
        if (isSmall) return refuse(response, 400, "EntityTooSmall");
        const bytes = Buffer.concat(parts.flatMap((part) => part ?? []));
        fake.objects.set(key, { bytes, modifiedAt: Date.now() });
        uploads.delete(uploadId);
        return answer(response, 200, "<CompleteMultipartUploadResult/>");
      }
      case "DELETE":
        if (query.has("uploadId")) uploads.delete(uploadId);
        else fake.objects.delete(key);
        return answer(response, 204, "");
      default:
        return read(request, response, key);
    }
  }

  function read(request: IncomingMessage, response: ServerResponse, key: string): void {
    const kept = fake.objects.get(key);
    if (!kept) return refuse(response, 404, "NoSuchKey");
    const headers = { "last-modified": new Date(kept.modifiedAt).toUTCString() };
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    if (!range) return answer(response, 200, kept.bytes, headers);
    const bytes = kept.bytes.subarray(Number(range[1]), Number(range[2]) + 1);
    return bytes.length === 0
      ? refuse(response, 416, "InvalidRange")
      : answer(response, 206, bytes, headers);
  }

  function list(response: ServerResponse, query: URLSearchParams): void {
    const prefix = query.get("prefix") ?? "";
    const after = query.get("continuation-token") ?? "";
    const rest = (key: string) => key.slice(prefix.length);
    const isNested = (key: string) => query.has("delimiter") && rest(key).includes("/");
    const all = [...fake.objects.keys()]
      .filter((key) => key.startsWith(prefix) && key > after)
      .sort();
    const page = all.slice(0, PAGE);
    const folders = new Set(
      page.filter(isNested).map((key) => `${prefix}${rest(key).split("/")[0]}/`),
    );
    const contents = page
      .filter((key) => !isNested(key))
      .map((key) => {
        const { bytes, modifiedAt } = fake.objects.get(key) ?? { bytes: "", modifiedAt: 0 };
        const modified = new Date(modifiedAt).toISOString();
        return `<Contents><Key>${encode(key)}</Key><LastModified>${modified}</LastModified><Size>${bytes.length}</Size></Contents>`;
      });
    const prefixes = [...folders].map(
      (one) => `<CommonPrefixes><Prefix>${encode(one)}</Prefix></CommonPrefixes>`,
    );
    const isTruncated = all.length > page.length;
    const token = isTruncated
      ? `<NextContinuationToken>${encode(page.at(-1) ?? "")}</NextContinuationToken>`
      : "";
    answer(
      response,
      200,
      `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${token}${contents.join("")}${prefixes.join("")}</ListBucketResult>`,
    );
  }

  function listUploads(response: ServerResponse, query: URLSearchParams): void {
    const prefix = query.get("prefix") ?? "";
    const found = [...uploads]
      .filter(([, { key }]) => key.startsWith(prefix))
      .map(
        ([id, { key, at }]) =>
          `<Upload><Key>${encode(key)}</Key><UploadId>${id}</UploadId><Initiated>${new Date(at).toISOString()}</Initiated></Upload>`,
      );
    answer(
      response,
      200,
      `<ListMultipartUploadsResult>${found.join("")}</ListMultipartUploadsResult>`,
    );
  }
}

/** An answer that never reaches anybody. */
class Silent {
  readonly #response: ServerResponse;
  readonly req: IncomingMessage;
  constructor(response: ServerResponse) {
    this.#response = response;
    this.req = response.req;
  }
  writeHead(): this {
    return this;
  }
  end(): void {
    this.#response.destroy();
  }
}

function answer(
  response: ServerResponse,
  status: number,
  body: string | Buffer,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

function refuse(response: ServerResponse, status: number, code: string): void {
  answer(response, status, `<?xml version="1.0"?><Error><Code>${code}</Code></Error>`);
}
