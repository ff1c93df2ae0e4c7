/**
 * Limits on guessed passwords, by the database's counters. test/isolation/sign-in.test.ts shows the same at a service
 * under attack.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { isRefusal, Overloaded } from '../../core/refusals.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { type Guesser, memberWithDevice, SignInLimits, strangerAt } from './sign-in-limits.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());

/** Refuses after 20 failures in a minute. The slower limit allows 4 a minute after 100 failures in an hour. */
const limitsOf = () =>
  new SignInLimits(database.db, { monotonicMs: () => 0 }, { max: 20, windowS: 60 });

const at = (network: string, host: number, email: string): Guesser =>
  strangerAt({ client: `${network}.${host}`, network: `${network}.0` }, email);
const wrong = () => Promise.resolve(false);

async function tried(limits: SignInLimits, guessers: readonly Guesser[]): Promise<number> {
  let count = 0;
  for (const guesser of guessers) {
    if (!isRefusal(await limits.guess(guesser, wrong))) count += 1;
  }
  return count;
}

test('a guess that is not tried, because too many people sign in, is not counted', async () => {
  const limits = limitsOf();
  const guesser = at('192.0.2', 1, 'busy@acme.test');
  for (let n = 0; n < 150; n += 1) {
    const busy = () => Promise.reject(new Overloaded('too many people are signing in'));
    await assert.rejects(limits.guess(guesser, busy), Overloaded);
  }
  const [row] = await database.db.query<{ used: number }>(
    'select sum(used)::int as used from auth_windows',
  );
  assert.equal(row?.used, 0);
  assert.equal(
    await tried(
      limits,
      Array.from({ length: 25 }, () => guesser),
    ),
    20,
  );
});

test('an account is limited per network, and has a second, slower limit across all networks', async () => {
  const limits = limitsOf();
  const email = 'jo@acme.test';
  const hosts = Array.from({ length: 30 }, (_, host) => host);
  const from = (network: string) =>
    tried(
      limits,
      hosts.map((host) => at(network, host, email)),
    );
  for (const third of [1, 2, 3, 4, 5]) assert.equal(await from(`198.51.${third}`), 20);
  assert.equal(await from('198.51.6'), 4);
  const others = hosts.map((host) => at('198.51.6', host, 'other@acme.test'));
  assert.equal(await tried(limits, others), 20);
  const laptop = memberWithDevice('01a2116f-0000-7000-8000-000000000000', 'laptop');
  assert.equal(
    await tried(
      limits,
      hosts.map(() => laptop),
    ),
    20,
  );
});
