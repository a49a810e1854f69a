// Counters, gauges and histograms, and the text that Prometheus reads (format 0.0.4).

export type Labels = Readonly<Record<string, string>>;

export interface Counter {
  add(labels: Labels, by?: number): void;
}

export interface Histogram {
  observe(labels: Labels, value: number): void;
}

export interface Reading {
  readonly labels: Labels;
  readonly value: number;
}

export interface Instruments {
  counter(name: string, help: string): Counter;
  histogram(name: string, help: string, bounds: readonly number[]): Histogram;
  /** Read when somebody asks. */
  gauge(name: string, help: string, read: () => readonly Reading[]): void;
  /** A count that somebody else keeps, read when somebody asks. */
  count(name: string, help: string, read: () => readonly Reading[]): void;
  render(): string;
}

/** Labels have few values each; whatever makes more than this of them is counted as one. */
const SERIES_MAX = 500;
const OTHER = "other";

export function createInstruments(): Instruments {
  const parts: (() => readonly string[])[] = [];
  return {
    counter(name, help) {
      const series = createSeries(() => ({ value: 0 }));
      parts.push(() => [
        ...header(name, help, "counter"),
        ...series.all().map(({ labels, kept }) => sample(name, labels, kept.value)),
      ]);
      return {
        add(labels, by = 1) {
          series.of(labels).value += by;
        },
      };
    },
    histogram(name, help, bounds) {
      const series = createSeries(() => ({ counts: bounds.map(() => 0), sum: 0, count: 0 }));
      parts.push(() => [
        ...header(name, help, "histogram"),
        ...series.all().flatMap(({ labels, kept }) => buckets(name, labels, bounds, kept)),
      ]);
      return {
        observe(labels, value) {
          const kept = series.of(labels);
          const at = bounds.findIndex((bound) => value <= bound);
          if (at !== -1) kept.counts[at] = (kept.counts[at] ?? 0) + 1;
          kept.sum += value;
          kept.count += 1;
        },
      };
    },
    gauge: (name, help, read) => reading("gauge", name, help, read),
    count: (name, help, read) => reading("counter", name, help, read),
    render: () => `${parts.flatMap((part) => part()).join("\n")}\n`,
  };

  function reading(
    type: "gauge" | "counter",
    name: string,
    help: string,
    read: () => readonly Reading[],
  ): void {
    parts.push(() => [
      ...header(name, help, type),
      ...read().map(({ labels, value }) => sample(name, labels, value)),
    ]);
  }
}

interface Kept {
  readonly counts: number[];
  sum: number;
  count: number;
}

function buckets(name: string, labels: Labels, bounds: readonly number[], kept: Kept): string[] {
  let below = 0;
  const lines = bounds.map((bound, at) => {
    below += kept.counts[at] ?? 0;
    return sample(`${name}_bucket`, { ...labels, le: String(bound) }, below);
  });
  return [
    ...lines,
    sample(`${name}_bucket`, { ...labels, le: "+Inf" }, kept.count),
    sample(`${name}_sum`, labels, kept.sum),
    sample(`${name}_count`, labels, kept.count),
  ];
}

function createSeries<Value>(create: () => Value) {
  const series = new Map<string, { readonly labels: Labels; readonly kept: Value }>();
  return { of, all: () => [...series.values()] };

  function of(labels: Labels): Value {
    const key = written(labels);
    const known = series.get(key);
    if (known) return known.kept;
    const isOther = Object.values(labels).every((value) => value === OTHER);
    if (series.size >= SERIES_MAX && !isOther) {
      return of(Object.fromEntries(Object.keys(labels).map((label) => [label, OTHER])));
    }
    const kept = create();
    series.set(key, { labels, kept });
    return kept;
  }
}

/** A reading without labels. */
export function one(value: number): readonly Reading[] {
  return [{ labels: {}, value }];
}

function header(name: string, help: string, type: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function sample(name: string, labels: Labels, value: number): string {
  return `${name}${written(labels)} ${Number.isNaN(value) ? "NaN" : value}`;
}

function written(labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
