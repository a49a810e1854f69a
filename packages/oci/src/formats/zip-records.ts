// The records of a zip archive (APPNOTE 4.3), as far as writer and reader share them. Archives over
// 4 GiB or 65 535 files need the 64-bit extension, which nothing here writes or reads.

export const LOCAL_HEADER = { signature: 0x04034b50, size: 30 } as const;

export const CENTRAL_HEADER = {
  signature: 0x02014b50,
  size: 46,
  flags: 8,
  method: 10,
  crc: 16,
  packedSize: 20,
  plainSize: 24,
  nameLength: 28,
  extraLength: 30,
  commentLength: 32,
  attributes: 38,
  offset: 42,
} as const;

export const END_RECORD = {
  signature: 0x06054b50,
  size: 22,
  entries: 10,
  centralSize: 12,
  centralOffset: 16,
} as const;

export const ENTRIES_MAX = 0xfffe;
export const SIZE_MAX = 0xfffffffe;
export const UTF8_NAMES = 1 << 11;
/** Midnight of the first day zip can express, 1 January 1980. */
export const FIXED_DATE = 0x0021_0000;
