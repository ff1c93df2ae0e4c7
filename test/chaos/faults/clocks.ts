/**
 * Makes the clocks of the nodes differ. Each node lives in its own time zone, and a fault can move the wall clock
 * (`Date`) of all its processes while they run. The clock of the database moves for all nodes at once, and its moves
 * are recorded.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Env } from '../../support/letterhaus.ts';

export type Clocks = Disposable & {
  /** Returns the environment for a start of the node. */
  envOf(node: string): Env;
  /** Sets the wall clock of a node to this offset from the true time. */
  set(node: string, offsetMs: number): void;
};

const ZONES: Readonly<Record<string, string>> = {
  a: 'Europe/Berlin',
  b: 'America/St_Johns',
  c: 'Pacific/Kiritimati',
};

export const HOUR_MS = 3_600_000;

/** Offsets from the true time in milliseconds. The last one leads to a few seconds before Berlin ends summer time. */
export const JUMPS: Readonly<Record<string, () => number>> = {
  'forty minutes ahead': () => (HOUR_MS * 2) / 3,
  'forty minutes behind': () => (-HOUR_MS * 2) / 3,
  'five days ahead': () => 5 * 24 * HOUR_MS,
  'a leap second behind': () => -1_000,
  'at the end of summer time': () => Date.UTC(2027, 9, 31, 0, 59, 57) - Date.now(),
};

/** Returns whether a node with this offset refuses mail (src/service/readiness/clock-watch.ts). */
export function isRefusing(offsetMs: number): boolean {
  return Math.abs(offsetMs) >= HOUR_MS;
}

export function makeClocks(): Clocks {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-clocks-'));
  const fileOf = (node: string): string => join(folder, node);
  return {
    envOf: (node) => ({
      TZ: ZONES[node],
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(wrongDate(fileOf(node)))}`,
    }),
    set: (node, offsetMs) => writeFileSync(fileOf(node), String(offsetMs)),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Returns a script that runs before the program, in the supervisor and in each worker. */
function wrongDate(file: string): string {
  return `
    import { readFileSync } from 'node:fs';
    const TrueDate = Date;
    let offsetMs = 0;
    const look = () => {
      try {
        offsetMs = Number(readFileSync(${JSON.stringify(file)}, 'utf8'));
      } catch {}
    };
    look();
    setInterval(look, 200).unref();
    globalThis.Date = class Date extends TrueDate {
      constructor(...given) {
        super(...(given.length > 0 ? given : [TrueDate.now() + offsetMs]));
      }
      static now() {
        return TrueDate.now() + offsetMs;
      }
    };`;
}

/** Milliseconds that the clock of the database is ahead of the true time, valid from `fromMs` on. */
export type Skew = { fromMs: number; skewMs: number };

const MOVE = `
update clock set skew = skew + $1 * interval '1 millisecond'
returning extract(epoch from skew)::float * 1000 as "skewMs"`;

export class DatabaseClock {
  readonly skews: Skew[] = [];
  readonly #sql: (text: string, values: unknown[]) => Promise<{ skewMs: number }[]>;

  /** @param sql repeats a statement whose response was lost, so the clock may move twice */
  constructor(sql: (text: string, values: unknown[]) => Promise<{ skewMs: number }[]>) {
    this.#sql = sql;
  }

  get skewMs(): number {
    return this.skews.at(-1)?.skewMs ?? 0;
  }

  async move(byMs: number): Promise<void> {
    // The move is recorded before the statement, because the database may use the new time before its response arrives.
    this.skews.push({ fromMs: Date.now(), skewMs: this.skewMs + byMs });
    const fromMs = Date.now();
    const [row] = await this.#sql(MOVE, [byMs]);
    if (row !== undefined) this.skews.push({ fromMs, skewMs: row.skewMs });
  }
}
