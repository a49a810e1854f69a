/** Whether values lie within values deeper than that; looked at without recursion. */
export function isDeeperThan(value: unknown, depthMax: number): boolean {
  let level: object[] = isObject(value) ? [value] : [];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= depthMax && level.some((item) => Object.keys(item).length > 0)) return true;
    const below: object[] = [];
    for (const item of level) {
      for (const part of Object.values(item)) if (isObject(part)) below.push(part);
    }
    level = below;
  }
  return false;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
