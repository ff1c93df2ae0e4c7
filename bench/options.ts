/** The command line of the benchmark. */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';

export type BenchOptions = {
  quick: boolean;
  postfix: boolean;
  json: boolean;
  rounds: number;
  workers: number;
  /** Rows to measure; null: all. */
  only: readonly Row[] | null;
};

export const ROWS = ['start', 'accept', 'end-to-end', 'variants', 'latency', 'memory'] as const;
export type Row = (typeof ROWS)[number];

export const HELP = `Measures Posthorn on this machine: load generator, service, database and receiving server.

  npm run bench -- [options]

  --quick       small counts and one round, under 40 s: whether everything works, not how fast
  --postfix     run Postfix and OpenDKIM against the same sink, in turn with Posthorn (as root)
  --rounds N    rounds of each rate; the table shows their median (default 5)
  --workers N   workers of the service (default: one per core)
  --only ROWS   only these, separated by commas: ${ROWS.join(', ')}
  --json        the table as JSON on stdout; progress stays on stderr
  --help

Method and figures: bench/README.md.
`;

/** @returns the options, `help`, or a sentence that says what is wrong */
export function readOptions(args: readonly string[]): BenchOptions | 'help' | { problem: string } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        quick: { type: 'boolean', default: false },
        postfix: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
        rounds: { type: 'string' },
        workers: { type: 'string' },
        only: { type: 'string' },
      },
    });
    if (values.help) return 'help';
    return {
      quick: values.quick,
      postfix: values.postfix,
      json: values.json,
      rounds: countOf('rounds', values.rounds) ?? (values.quick ? 1 : 5),
      workers: countOf('workers', values.workers) ?? availableParallelism(),
      only: values.only === undefined ? null : values.only.split(',').map(rowOf),
    };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function countOf(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text);
  throw new Error(`--${name}: write a number from 1 to 999, not ${JSON.stringify(text)}.`);
}

function rowOf(name: string): Row {
  const row = ROWS.find((one) => one === name);
  if (row !== undefined) return row;
  throw new Error(`--only: there is no ${JSON.stringify(name)}; there are ${ROWS.join(', ')}.`);
}
