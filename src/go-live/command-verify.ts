/** The step that waits until DNS has the records. It ends when the domain is verified, or after `--wait`. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Domain } from '../../sdk/src/api.ts';
import { LetterhausError } from '../../sdk/src/errors.ts';
import type { GoLive, Step } from './command-step.ts';

const WAITS_MS = [2_000, 4_000, 8_000, 15_000];

/** @param seen the domain as the service has just checked it, or as it was added */
export async function waitForVerification(
  goLive: GoLive,
  seen: Domain,
  waitMaxMs: number,
): Promise<{ step: Step; isVerified: boolean }> {
  const { cli, name } = goLive;
  const endMs = cli.world.monotonicMs() + waitMaxMs;
  let checked = { domain: seen, retryAfterMs: 0 };
  for (let looks = 0; ; looks += 1) {
    if (isComplete(checked.domain)) return { step: verified(checked.domain), isVerified: true };
    if (looks > 0) {
      const waitMs = Math.max(waitMsAfter(looks), checked.retryAfterMs);
      if (cli.world.monotonicMs() + waitMs > endMs) break;
      cli.err(progressText(checked.domain, waitMs));
      await pause(waitMs);
    }
    checked = await look(goLive, seen.id);
  }
  const { domain } = checked;
  const message = `DNS does not have all records of ${name} yet. Run the command again to continue.`;
  const step: Step = { step: 'verification', state: 'todo', message, lines: problemsOf(domain) };
  // A verified domain sends for three days while a record is missing.
  return { step, isVerified: domain.status === 'verified' || domain.status === 'degraded' };
}

function waitMsAfter(looks: number): number {
  return WAITS_MS[Math.min(looks, WAITS_MS.length) - 1] ?? 0;
}

function isComplete(domain: Domain): boolean {
  return domain.status === 'verified' && missingOf(domain).length === 0;
}

function verified(domain: Domain): Step {
  const message = `${domain.name} is verified: it can send.`;
  const lines = [...problemsOf(domain), ...domain.advice.map((one) => one.message)];
  return { step: 'verification', state: 'done', message, lines };
}

function progressText(domain: Domain, waitMs: number): string {
  const names = missingOf(domain).map(({ record, name }) => `${record} ${name}`);
  return `Waiting for DNS: ${names.join(', ')}. Next look in ${Math.round(waitMs / 1_000)} s. You may press Ctrl-C: the next run continues.\n`;
}

/** Looks at DNS now. When the service limits that, this returns the state of the last look, and the wait. */
export async function look(
  { client }: GoLive,
  id: string,
): Promise<{ domain: Domain; retryAfterMs: number }> {
  try {
    return { domain: await client.domains.verify(id), retryAfterMs: 0 };
  } catch (error) {
    if (!(error instanceof LetterhausError) || error.status !== 429) throw error;
    return { domain: await client.domains.get(id), retryAfterMs: (error.retry_after ?? 1) * 1_000 };
  }
}

function missingOf(domain: Domain) {
  return domain.records.filter(
    ({ required, status, key }) => required && key === undefined && status !== 'verified',
  );
}

function problemsOf({ records }: Domain): string[] {
  return records.flatMap(({ name, problem, key }) =>
    problem === null || key === 'previous' ? [] : [`${name}: ${problem}`],
  );
}
