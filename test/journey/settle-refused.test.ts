/**
 * The database answers and refuses to store the outcomes of delivered mail: a column has
 * another name, a right is missing, a check fails. The service sends no mail again: outcomes wait
 * in memory, and no further message gets its final dot. When the database stores again, mail resumes.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Journey, startJourney } from '../support/journey.ts';
import { arrivals, assertSettled, duplicates } from '../support/load.ts';
import { waitForArrivals, waitForEmptyQueue } from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

const ENV = { LETTERHAUS_LOG: 'warn' };
const KEPT = 'an outcome could not be stored';

type Refusal = { sqlstate: string; failures: number; email_id: string };

/** A test's own mail server at a domain, which says nothing to a final dot before the verdict. */
async function stage(journey: Journey, domain: string) {
  const { service } = journey;
  const verdict = Promise.withResolvers<void>();
  const dot = { after: verdict.promise, reply: '250 2.0.0 Taken' };
  const mx = await journey.mailServer(domain, { phases: { data: dot } }, { provider: domain });
  const saidBefore = service.logs.length;
  /** Returns the log lines about refused outcomes since the test began. */
  const refusals = (): Refusal[] =>
    service.logs
      .slice(saidBefore)
      .split('\n')
      .filter((line) => line.includes(KEPT) && line.endsWith('}'))
      .map((line) => JSON.parse(line));
  const send = (local: string) => journey.send({ to: `${local}@${domain}` });
  return { service, key: await journey.key(), mx, send, verdict, refusals };
}

const CHECK = 'alter table recipients add constraint broken check';
const MENDED_CHECK = 'alter table recipients drop constraint broken';

const WAYS = [
  {
    what: 'a column has another name',
    sqlstate: '42703',
    harm: 'alter table recipients rename column smtp to smtp_gone',
    mend: 'alter table recipients rename column smtp_gone to smtp',
  },
  {
    what: 'a right is missing',
    sqlstate: '42501',
    harm: 'revoke update on recipients from letterhaus_app',
    mend: 'grant update on recipients to letterhaus_app',
  },
  {
    what: 'a check fails',
    sqlstate: '23514',
    // Not for what the tests before have delivered.
    harm: `${CHECK} (status <> 'delivered') not valid`,
    mend: MENDED_CHECK,
  },
];

// Each waits for seconds until an outcome is refused again, so that two services work side by side.
describe('the database refuses outcomes', { concurrency: true }, () => {
  describe('of all mail', { concurrency: 1 }, () => {
    let journey: Journey;
    before(async () => {
      journey = await startJourney(ENV);
    });
    after(() => journey[Symbol.asyncDispose]());

    for (const { what, sqlstate, harm, mend } of WAYS) {
      test(`while ${what}, delivered mail is not sent again, and is settled afterwards`, async () => {
        const { service, mx, send, verdict, refusals } = await stage(
          journey,
          `way${sqlstate}.test`,
        );
        const ids = await Promise.all([0, 1, 2, 3, 4, 5].map((index) => send(`jo${index}`)));
        await waitFor(() => mx.messages.length >= 2, { what: 'two messages up to their dots' });
        await service.sql(harm);
        verdict.resolve();
        await waitFor(() => refusals().some(({ failures }) => failures === 2), {
          what: 'the second refusal of an outcome',
        });
        const taken = mx.messages.length;
        ids.push(...(await Promise.all([6, 7, 8].map((index) => send(`jo${index}`)))));
        await waitFor(() => refusals().some(({ failures }) => failures >= 4), {
          what: 'the fourth refusal of an outcome',
          timeoutMs: 60_000,
        });
        assert.ok(refusals().every((one) => one.sqlstate === sqlstate));
        assert.equal(mx.messages.length, taken, 'no message got its final dot meanwhile');
        assert.equal(duplicates(arrivals(mx)), 0);

        await service.sql(mend);
        await waitForArrivals(mx, ids);
        await waitForEmptyQueue(service, 60_000);
        await assertSettled(service, ids);
        assert.equal(duplicates(arrivals(mx)), 0);
      });
    }
  });

  describe('of one email', { concurrency: 1 }, () => {
    let journey: Journey;
    before(async () => {
      journey = await startJourney(ENV);
    });
    after(() => journey[Symbol.asyncDispose]());

    test('one refused outcome blocks neither the others of its batch nor other mail', async () => {
      const { mx, service, key, send, verdict, refusals } = await stage(journey, 'poisoned.test');
      await service.sql(`${CHECK} (address not like 'poison@%' or status <> 'delivered')`);
      const poisoned = await send('poison');
      const ids = await Promise.all([0, 1, 2].map((index) => send(`jo${index}`)));
      await waitFor(() => arrivals(mx).has(poisoned), { what: 'the message to arrive' });
      verdict.resolve();
      await waitForArrivals(mx, ids);
      await waitFor(() => refusals().some(({ failures }) => failures >= 4), {
        what: 'the fourth refusal of its outcome',
        timeoutMs: 60_000,
      });
      ids.push(await send('jo3'));
      for (const id of ids) await service.waitForStatus(id, 'delivered', { key });
      assert.ok(refusals().every(({ email_id: id }) => id === poisoned));
      await service.sql(MENDED_CHECK);
      await service.waitForStatus(poisoned, 'delivered', { key, timeoutMs: 60_000 });
      await assertSettled(service, [...ids, poisoned]);
      assert.equal(duplicates(arrivals(mx)), 0);
    });

    test('an outcome that is not legal for its recipient is kept, its mail not sent again, and other mail continues', async () => {
      const { mx, service, key, send, verdict, refusals } = await stage(journey, 'illegal.test');
      const broken = await send('jo0');
      await waitFor(() => mx.messages.length === 1, { what: 'the message up to its dot' });
      const setStatus = (status: string) =>
        service.sql(`update recipients set status = '${status}' where email_id = '${broken}'`);
      await setStatus('failed');
      verdict.resolve();
      await waitFor(() => refusals().length > 0, { what: 'the refusal' });
      const other = await send('jo1');
      await service.waitForStatus(other, 'delivered', { key });
      assert.ok(refusals().every((one) => one.sqlstate === 'P0004' && one.email_id === broken));
      await setStatus('queued');
      await service.waitForStatus(broken, 'delivered', { key, timeoutMs: 60_000 });
      await assertSettled(service, [broken, other]);
      assert.equal(duplicates(arrivals(mx)), 0);
    });

    test('a service that stops meanwhile logs the outcomes that it could not write', async () => {
      const { mx, service, send, verdict, refusals } = await stage(journey, 'stopping.test');
      const id = await send('jo0');
      await waitFor(() => mx.messages.length === 1, { what: 'the message up to its dot' });
      await service.sql('revoke update on recipients from letterhaus_app');
      verdict.resolve();
      await waitFor(() => refusals().length > 0, { what: 'the refusal' });
      assert.equal(await service.stop(), 0);
      await service.logged(/stopped with outcomes that could not be stored/);
      assert.ok(service.logs.includes(id));
    });
  });
});
