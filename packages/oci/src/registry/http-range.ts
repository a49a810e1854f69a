// One range of bytes, as RFC 9110 section 14 has it. More than one is answered with the whole, one that
// ends before it begins is refused (14.2 allows both).

export type RangeAnswer =
  | { readonly kind: "whole" }
  | { readonly kind: "part"; readonly from: number; readonly to: number }
  | { readonly kind: "unsatisfiable" };

export function answerRange(header: string | undefined, size: number): RangeAnswer {
  const found = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? "");
  const [, first = "", last = ""] = found ?? [];
  if (!found || (first === "" && last === "")) return { kind: "whole" };
  if (first === "") {
    const length = Math.min(Number(last), size);
    return length === 0
      ? { kind: "unsatisfiable" }
      : { kind: "part", from: size - length, to: size - 1 };
  }
  const from = Number(first);
  const to = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  return from > to ? { kind: "unsatisfiable" } : { kind: "part", from, to };
}
