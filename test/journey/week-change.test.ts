/**
 * The week of the partitions changes while mail is accepted and delivered: a real change, since the
 * partition of the current week is divided a few seconds ahead. Nothing is lost, and lists, events,
 * webhooks and counts go on.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { firstUuidAt } from '../../src/database/ids.ts';
import { WEEK_MS } from '../../src/database/partitions.ts';
import { startJourney } from '../support/journey.ts';
import { assertSettled, runLoad } from '../support/load.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney(
  { LETTERHAUS_LIMIT_SENDING: '1000000/60' },
  { environment: 'test', args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

const TABLES = {
  emails: 'id',
  contents: 'email_id',
  recipients: 'email_id',
  events: 'subject_id',
  webhook_deliveries: 'event_id',
};
const AHEAD_MS = 8_000;
const ROUND = 50;

/** The current week ends at `boundaryMs`, and what is left of it is a week of its own. */
async function divideWeek(boundaryMs: number): Promise<void> {
  const week = Math.floor(boundaryMs / WEEK_MS);
  const day = new Date(week * WEEK_MS).toISOString().slice(0, 10).replaceAll('-', '');
  const statements = Object.keys(TABLES).map((table) => {
    const name = `${table}_${day}`;
    return `
      alter table ${table} detach partition ${name};
      alter table ${name} rename to ${name}_whole;
      create table ${name} partition of ${table}
        for values from ('${firstUuidAt(week * WEEK_MS)}') to ('${firstUuidAt(boundaryMs)}');
      create table ${name}_second partition of ${table}
        for values from ('${firstUuidAt(boundaryMs)}') to ('${firstUuidAt((week + 1) * WEEK_MS)}');
      insert into ${table} select * from ${name}_whole;
      drop table ${name}_whole;`;
  });
  await service.sql(`begin; ${statements.join('')} commit`);
}

/** How many emails are in each part of the week. */
async function partsOfWeek(boundaryMs: number): Promise<[number, number]> {
  const [row] = await service.sql(
    `select count(*) filter (where id < $1)::int as before, count(*) filter (where id >= $1)::int as after
       from emails`,
    [firstUuidAt(boundaryMs)],
  );
  return [row.before, row.after];
}

/** All pages of a list, newest first. */
async function listed(path: string): Promise<string[]> {
  const ids: string[] = [];
  for (let from = ''; ;) {
    const { status, body, text } = await journey.request(
      'GET',
      `${path}${path.includes('?') ? '&' : '?'}limit=100${from}`,
    );
    assert.equal(status, 200, text);
    ids.push(...body.data.map(({ id }: { id: string }) => id));
    if (!body.has_more) return ids;
    from = `&after=${ids.at(-1)}`;
  }
}

/** @returns the ids of its emails, each of which was accepted */
async function loadUntil(isOver: () => boolean): Promise<string[]> {
  const sent: string[] = [];
  const key = await journey.key();
  const to = (index: number) =>
    `${index % 5 === 0 ? 'deferred' : 'delivered'}+${index}@simulator.test`;
  while (!isOver()) {
    const load = await runLoad(service, { key, count: ROUND, from: 'hello@acme.test', to });
    assert.deepEqual([load.refused, load.broken], [[], 0]);
    sent.push(...load.accepted);
  }
  return sent;
}

async function allHaveEnded(ids: readonly string[]): Promise<void> {
  await nothingWaits();
  await assertSettled(service, ids);
}

async function nothingWaits(): Promise<void> {
  const isEmpty = async () => {
    // Deferred mail waits for its next attempt.
    await service.clock.advance({ minutes: 2 });
    return (await service.sql('select from queue limit 1')).length === 0;
  };
  await waitFor(isEmpty, { what: 'all mail to end', timeoutMs: 60_000 });
}

test('accepting, delivering, events, webhooks and lists continue through a change of week', async () => {
  const boundaryMs = Date.now() + AHEAD_MS;
  await divideWeek(boundaryMs);
  const { body: stream } = await journey.request('GET', '/v1/events?after=latest');
  const sent = await loadUntil(() => Date.now() > boundaryMs + 3_000);
  const parts = await partsOfWeek(boundaryMs);
  assert.ok(parts[0] > 0 && parts[1] > 0, JSON.stringify(parts));
  await allHaveEnded(sent);

  assert.deepEqual((await listed('/v1/emails')).toSorted(), sent.toSorted());
  const delivered = await deliveredSince(stream.cursor);
  assert.deepEqual(delivered.toSorted(), sent.toSorted());
  const isLogged = async () =>
    (await service.sql(`select from webhook_deliveries where status <> 'delivered' limit 1`))
      .length === 0;
  await waitFor(isLogged, { what: 'every webhook', timeoutMs: 60_000 });
  const [{ events, deliveries }] = await service.sql(
    `select (select count(*) from events where type ~ '^email')::int as events,
            (select count(*) from webhook_deliveries)::int as deliveries`,
  );
  assert.equal(deliveries, events);
});

/** The emails of all `email.delivered` in the stream, in pages. */
async function deliveredSince(cursor: string): Promise<string[]> {
  const ids: string[] = [];
  for (let from = cursor; ;) {
    const { body, text } = await journey.request('GET', `/v1/events?after=${from}&limit=100`);
    assert.ok(body.data, text);
    for (const { type, data } of body.data) {
      if (type === 'email.delivered') ids.push(data.email_id);
    }
    if (body.data.length === 0) return ids;
    from = body.cursor;
  }
}

test("when SQL's clock passes a week under load, nothing waits or is lost", async () => {
  const begun = Date.now();
  const earlier = await listed('/v1/emails');
  let advancedAtMs = Infinity;
  const advancing = service.clock.advance({ hours: 24 * 8 }).then(() => {
    advancedAtMs = Date.now();
  });
  const sent = await loadUntil(() => Date.now() > Math.max(begun, advancedAtMs) + 2_000);
  await advancing;
  await nothingWaits();
  // The emails that were open when eight days passed at once have expired, and no others.
  const expired = new Set(await listed('/v1/emails?status=failed'));
  assert.ok([...expired].every((id) => id < firstUuidAt(advancedAtMs)));
  const others = sent.filter((id) => !expired.has(id));
  assert.ok(others.some((id) => id > firstUuidAt(advancedAtMs)));
  await assertSettled(service, others);
  const all = await listed('/v1/emails');
  assert.deepEqual(all.toSorted(), [...earlier, ...sent].toSorted());
  const later = await journey.send({ to: 'delivered@simulator.test' });
  assert.equal((await journey.ended(later)).status, 'delivered');
});
