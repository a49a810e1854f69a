// What can be read of an exclave.yaml whose shape may be wrong in places, so that one mistake does
// not hide the others or make up new ones.

export type RawMapping = Readonly<Record<string, unknown>>;

export interface RawItem {
  readonly index: number;
  readonly item: RawMapping;
  /** Its name, or its type for a plugin, if it has one. */
  readonly name: string | undefined;
}

/** The mappings of a list of the file, such as its components. */
export function rawItems(value: unknown, list: string, nameKey = "name"): RawItem[] {
  const items = isMapping(value) ? value[list] : undefined;
  if (!Array.isArray(items)) return [];
  return items.flatMap((item: unknown, index) => {
    if (!isMapping(item)) return [];
    const name = item[nameKey];
    return [{ index, item, name: typeof name === "string" ? name : undefined }];
  });
}

export function rawNames(value: unknown, list: string, nameKey = "name"): string[] {
  return rawItems(value, list, nameKey).flatMap(({ name }) => name ?? []);
}

export function isMapping(value: unknown): value is RawMapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
