// The few globals the core leans on that are neither the language nor a platform: every browser,
// Node and edge runtime has them. Nothing else of the world is visible from here.

declare class TextEncoder {
  encode(text?: string): Uint8Array<ArrayBuffer>;
}

declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(bytes?: Uint8Array): string;
}

declare function atob(base64: string): string;
declare function btoa(binary: string): string;
