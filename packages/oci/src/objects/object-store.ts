// Objects under keys, as S3-compatible stores have them: written whole, never changed in place, seen by every
// reader as soon as a write has returned. Nothing is renamed and nothing is locked; what is built on top has to
// do without both.

export interface ObjectHead {
  readonly sizeBytes: number;
  /** By the store's clock. */
  readonly modifiedAt: number;
}

export interface ObjectEntry extends ObjectHead {
  readonly key: string;
}

export interface ObjectRange {
  /** First and last byte, both counted. */
  readonly from: number;
  readonly to: number;
}

export interface ObjectStore {
  /** Undefined where there is none. */
  head(key: string): Promise<ObjectHead | undefined>;
  /** All of it, or a part, in memory; undefined where there is none. A part must begin within the object. */
  read(key: string, range?: ObjectRange): Promise<Buffer | undefined>;
  /** Durable when it returns, and whole or not there at all. */
  write(key: string, bytes: Uint8Array): Promise<void>;
  /** Removing what is not there is no error. */
  remove(key: string): Promise<void>;
  /** All whose keys begin so, in the order of their keys. */
  list(prefix: string): AsyncIterable<ObjectEntry>;
  /** The names between the prefix and the next slash, of all that lies below such a name. */
  folders(prefix: string): Promise<string[]>;
  /** What is too large to be in memory. Nothing is seen of it before `complete` has returned. */
  upload(key: string, options?: UploadOptions): ObjectUpload;
  /** Gives up uploads that were begun before then and never ended, as a killed process leaves them. Returns how many. */
  abortUploads(prefix: string, before: number): Promise<number>;
}

export interface UploadOptions {
  /** If it is known. */
  readonly sizeBytes?: number | undefined;
}

export interface ObjectUpload {
  /** Bytes in their order. What was handed over may still be on its way when it returns. */
  write(bytes: Uint8Array): Promise<void>;
  complete(): Promise<void>;
  abort(): Promise<void>;
}

/** The same store, as if it began at a prefix. */
export function objectsBelow(store: ObjectStore, prefix: string): ObjectStore {
  return {
    head: (key) => store.head(prefix + key),
    read: (key, range) => store.read(prefix + key, range),
    write: (key, bytes) => store.write(prefix + key, bytes),
    remove: (key) => store.remove(prefix + key),
    async *list(below) {
      for await (const entry of store.list(prefix + below)) {
        yield { ...entry, key: entry.key.slice(prefix.length) };
      }
    },
    folders: (below) => store.folders(prefix + below),
    upload: (key, options) => store.upload(prefix + key, options),
    abortUploads: (below, before) => store.abortUploads(prefix + below, before),
  };
}

/** So much of an object is in memory at a time while it is read from end to end. */
const PIECE_BYTES = 2 * 1024 * 1024;

/**
 * The bytes of a range, piece by piece: each is a request of its own that can be retried, and a reader that is slow keeps
 * no connection from others.
 */
export async function* readPieces(
  store: Pick<ObjectStore, "read">,
  key: string,
  { from, to }: ObjectRange,
): AsyncGenerator<Buffer, void> {
  for (let at = from; at <= to; ) {
    const piece = await store.read(key, { from: at, to: Math.min(to, at + PIECE_BYTES - 1) });
    if (piece === undefined || piece.length === 0) throw new Error(`${key} ended at byte ${at}`);
    at += piece.length;
    yield piece;
  }
}
