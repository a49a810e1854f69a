// What a registry says when it says no: the distribution specification's codes, each with its status.

// biome-ignore format: a table reads as a table.
const STATUS = {
  BLOB_UNKNOWN: 404, BLOB_UPLOAD_INVALID: 400, BLOB_UPLOAD_UNKNOWN: 404, DIGEST_INVALID: 400,
  MANIFEST_BLOB_UNKNOWN: 404, MANIFEST_INVALID: 400, MANIFEST_UNKNOWN: 404, NAME_INVALID: 400,
  NAME_UNKNOWN: 404, SIZE_INVALID: 400, UNAUTHORIZED: 401, DENIED: 403, UNSUPPORTED: 405,
  TOOMANYREQUESTS: 429, TAG_INVALID: 400, UNKNOWN: 500,
} as const;

export type RegistryErrorCode = keyof typeof STATUS;

export class RegistryError extends Error {
  readonly code: RegistryErrorCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: RegistryErrorCode,
    message: string,
    options: { status?: number; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "RegistryError";
    this.code = code;
    this.status = options.status ?? STATUS[code];
    this.headers = options.headers ?? {};
  }

  get body(): string {
    return `${JSON.stringify({ errors: [{ code: this.code, message: this.message }] })}\n`;
  }
}
