/** The step that waits until DNS has the records. It ends when the domain is verified, or after `--wait`. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Domain } from '../../sdk/src/api.ts';
import { LetterhausError } from '../../sdk/src/errors.ts';
import type { GoLive, Step } from './command-step.ts';

const WAITS_MS = [2_000, 4_000, 8_000, 15_000];

export async function waitForVerification(
  goLive: GoLive,
  { id }: Domain,
  waitMaxMs: number,
): Promise<{ step: Step; isVerified: boolean }> {
  const { cli, name } = goLive;
  const endMs = cli.world.monotonicMs() + waitMaxMs;
  for (let looks = 0; ; looks += 1) {
    const { domain, retryAfterMs } = await look(goLive, id);
    const missing = missingOf(domain);
    if (domain?.status === 'verified' && missing.length === 0) {
      const message = `${name} is verified: it can send.`;
      const lines = [...problemsOf(domain), ...domain.advice.map((one) => one.message)];
      return { step: { step: 'verification', state: 'done', message, lines }, isVerified: true };
    }
    const waitMs = Math.max(WAITS_MS[Math.min(looks, WAITS_MS.length - 1)] ?? 0, retryAfterMs);
    if (cli.world.monotonicMs() + waitMs > endMs) {
      const message = `DNS does not have all records of ${name} yet. Run the command again to continue.`;
      const lines = domain === null ? [] : problemsOf(domain);
      const isVerified = domain?.status === 'verified' || domain?.status === 'degraded';
      return { step: { step: 'verification', state: 'todo', message, lines }, isVerified };
    }
    const names = missing.map((record) => `${record.record} ${record.name}`).join(', ');
    cli.err(
      `Waiting for DNS${names === '' ? '' : `: ${names}`}. Next look in ${Math.round(waitMs / 1_000)} s. You may press Ctrl-C: the next run continues.\n`,
    );
    await pause(waitMs);
  }
}

/** A limited look is repeated when the service permits it. */
async function look(
  { client }: GoLive,
  id: string,
): Promise<{ domain: Domain | null; retryAfterMs: number }> {
  try {
    return { domain: await client.domains.verify(id), retryAfterMs: 0 };
  } catch (error) {
    if (!(error instanceof LetterhausError) || error.status !== 429) throw error;
    return { domain: null, retryAfterMs: (error.retry_after ?? 1) * 1_000 };
  }
}

function missingOf(domain: Domain | null) {
  return (domain?.records ?? []).filter(
    ({ required, status, key }) => required && key === undefined && status !== 'verified',
  );
}

function problemsOf({ records }: Domain): string[] {
  return records.flatMap(({ name, problem, key }) =>
    problem === null || key === 'previous' ? [] : [`${name}: ${problem}`],
  );
}
