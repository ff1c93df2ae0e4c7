/** The command line of `npm run chaos`. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

export type ChaosOptions = {
  seed: number;
  /** Minimum minutes of faults; null: until every failpoint was hit (`--quick`). */
  minutes: number | null;
  /** Minimum of accepted emails. */
  emails: number;
};

/** Accepted emails. Clients send a few more, because the service rightly refuses some. */
const QUICK_EMAILS = 2_000;
const SEED_MAX = 1_000_000;

export const HELP = `Injects faults into a running service and checks its guarantees.

  npm run chaos -- --quick | --minutes N [--seed N]

A run starts three nodes on one database, and sends them a load over HTTP. Mail servers, DNS and webhook
receivers fail. The run kills and freezes processes at every failpoint (src/lib/failpoint.ts), stops the
database and cuts networks. Then it ends all faults and waits until the queue is empty. At last the
database loses its latest commits once. A ledger compares the accepted requests with the stored rows, the
mail that arrived and the webhooks that were sent.

  --quick       send ${QUICK_EMAILS} emails, and use every failpoint and every kind of fault once: some minutes
  --minutes N   inject rounds of faults for N minutes (1 to 600)
  --seed N      repeat the choices of an earlier run; the timing of processes always differs
  --help        show this text

The last line shows the counts and PASS or FAIL. The exit code is 0 or 1. Progress goes to stderr.
`;

/** @returns the options, `help`, or an error message */
export function readOptions(args: readonly string[]): ChaosOptions | 'help' | { problem: string } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        quick: { type: 'boolean', default: false },
        minutes: { type: 'string' },
        seed: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return 'help';
    const minutes = numberOf('minutes', values.minutes, 600);
    if (values.quick === (minutes !== null)) {
      return { problem: 'give either --quick or --minutes N; see --help.' };
    }
    const seed = numberOf('seed', values.seed, SEED_MAX) ?? randomInt(1, SEED_MAX);
    return { seed, minutes, emails: QUICK_EMAILS };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function numberOf(name: string, text: string | undefined, max: number): number | null {
  if (text === undefined) return null;
  const number = Number(text);
  if (/^[1-9]\d*$/.test(text) && number <= max) return number;
  throw new Error(`--${name}: write a number from 1 to ${max}, not ${JSON.stringify(text)}.`);
}
