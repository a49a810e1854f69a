// How large a YAML text is, found out before a tree is made of it: composing one recurses, compares keys with
// keys and copies what aliases stand for, so its cost is the author's to choose. Tokens cost what they are long.

import { type CST, isAlias, isCollection, isPair, type Node, Parser } from "yaml";
import { APP_ALIASES_MAX, APP_BYTES_MAX, APP_NODES_MAX, JSON_DEPTH_MAX } from "../limits.ts";

/** What is too large about the text, if anything. */
export function oversizeOf(text: string): string | undefined {
  if (text.length > APP_BYTES_MAX) return `it has more than ${APP_BYTES_MAX} letters`;
  let nodes = 0;
  let aliases = 0;
  for (const token of new Parser().parse(text)) {
    const pending: { readonly token: CST.Token; readonly depth: number }[] = [{ token, depth: 0 }];
    for (let next = pending.pop(); next; next = pending.pop()) {
      const { depth } = next;
      if (++nodes > APP_NODES_MAX) return `it has more than ${APP_NODES_MAX} values`;
      if (depth > JSON_DEPTH_MAX) return `its values are nested over ${JSON_DEPTH_MAX} deep`;
      if (next.token.type === "alias" && ++aliases > APP_ALIASES_MAX) {
        return `it has more than ${APP_ALIASES_MAX} aliases`;
      }
      for (const child of childrenOf(next.token)) pending.push({ token: child, depth: depth + 1 });
    }
  }
  return undefined;
}

function childrenOf(token: CST.Token): CST.Token[] {
  if (token.type === "document") return token.value ? [token.value] : [];
  if (!("items" in token)) return [];
  return token.items.flatMap((item) => [
    ...("key" in item && item.key ? [item.key] : []),
    ...("value" in item && item.value ? [item.value] : []),
  ]);
}

/** How many values a tree has when each alias is what it stands for, or why that cannot be told. */
export function expandedOversize(
  root: unknown,
  targetOf: (alias: Node) => Node | undefined,
): string | undefined {
  const sizes = new Map<unknown, number>();
  const size = sizeOf(root, 0);
  if (size === undefined) return `its aliases are nested over ${JSON_DEPTH_MAX} deep`;
  return size > APP_NODES_MAX
    ? `it has more than ${APP_NODES_MAX} values, counting what its aliases stand for`
    : undefined;

  function sizeOf(node: unknown, depth: number): number | undefined {
    if (depth > JSON_DEPTH_MAX) return undefined;
    if (isAlias(node)) return sizeOf(targetOf(node), depth + 1);
    if (!isCollection(node)) return 1;
    const known = sizes.get(node);
    if (known !== undefined) return known;
    let sum = 1;
    for (const item of node.items) {
      for (const child of isPair(item) ? [item.key, item.value] : [item]) {
        const childSize = sizeOf(child, depth + 1);
        if (childSize === undefined) return undefined;
        sum = Math.min(sum + childSize, APP_NODES_MAX + 1);
      }
    }
    sizes.set(node, sum);
    return sum;
  }
}
