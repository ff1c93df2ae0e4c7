/**
 * The database answers and refuses statements for now: transactions that meet each other, locks, no memory, no
 * connection, too long a statement. An accept is refused with the reason, and nothing is stored. An outcome and a claim
 * are repeated, so that mail is sent once and each event arrives. database-disk.test.ts has a full disk.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney({ LETTERHAUS_LOG: 'warn' });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

/**
 * Refuses what fires it while `refusals` has the table. A sequence counts refusals, because no rollback takes back its
 * values. The triggers stay: to make or drop one takes a lock that meets transactions of the service in a deadlock.
 */
await service.sql(`
create table refusals (relation text primary key, state text not null);
create function refuse() returns trigger language plpgsql security definer set search_path = public as $$
declare
  wanted text := (select state from refusals where relation = tg_argv[0]);
begin
  if wanted is null then return new; end if;
  perform nextval('refused_' || tg_argv[0]);
  raise exception 'refused for now' using errcode = wanted;
end $$;
create sequence refused_emails;
create sequence refused_recipients;
create sequence refused_webhook_queue;
create trigger refused before insert on emails for each row execute function refuse('emails');
create trigger refused before update on recipients for each row when (new.status = 'delivered')
  execute function refuse('recipients');
create trigger refused before update on webhook_queue for each row execute function refuse('webhook_queue');`);

type Table = 'emails' | 'recipients' | 'webhook_queue';

const refuse = (table: Table, sqlState: string) =>
  service.sql('insert into refusals values ($1, $2)', [table, sqlState]);
const permit = (table: Table) => service.sql('delete from refusals where relation = $1', [table]);

async function refusedCount(table: Table): Promise<number> {
  const text = `select case when is_called then last_value else 0 end::int as count from refused_${table}`;
  const [{ count }] = await service.sql(text);
  return count;
}

/** Waits until two more statements on the table are refused. */
async function refusedTwice(table: Table): Promise<void> {
  const before = await refusedCount(table);
  await waitFor(async () => (await refusedCount(table)) >= before + 2, {
    what: `two refusals of ${table}`,
    timeoutMs: 60_000,
  });
}

const REFUSALS = [
  ['40001', 'another transaction was in the way', /another change was in progress/],
  ['40P01', 'there is a deadlock', /another change was in progress/],
  ['55P03', 'a lock is held for too long', /another change was in progress/],
  ['53200', 'there is no memory', /it lacks space, memory or connections/],
  ['53300', 'there is no connection', /it lacks space, memory or connections/],
  ['57014', 'the statement takes too long', /it took too long/],
] as const;

for (const [sqlState, what, reason] of REFUSALS) {
  test(`when ${what}, an accept is refused with the reason, and mail and webhooks go once`, async () => {
    const domain = `refused${sqlState.toLowerCase()}.test`;
    const mx = await journey.mailServer(domain, {}, { provider: domain });
    const key = await journey.key();
    const headers = { 'Idempotency-Key': domain };
    const body = { from: 'hello@acme.example', to: `jo@${domain}`, subject: 'Once', text: 'Once' };
    const send = () => service.request('POST', '/v1/emails', { key, headers, body });

    await refuse('emails', sqlState);
    const refused = await send();
    await permit('emails');
    assert.deepEqual([refused.status, refused.body.error.code], [503, 'service_unavailable']);
    assert.match(refused.body.error.message, reason);

    await refuse('recipients', sqlState);
    await refuse('webhook_queue', sqlState);
    const accepted = await send();
    assert.equal(accepted.status, 202);
    await Promise.all([refusedTwice('recipients'), refusedTwice('webhook_queue')]);
    await permit('recipients');
    await permit('webhook_queue');
    const { id } = accepted.body;
    await service.waitForStatus(id, 'delivered', { key, timeoutMs: 60_000 });
    assert.deepEqual(await journey.story(id), ['queued', 'delivered']);
    assert.equal(mx.messages.length, 1);
    assert.equal((await send()).body.id, id);
  });
}
