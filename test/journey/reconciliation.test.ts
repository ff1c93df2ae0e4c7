/**
 * The daily reconciliation of a running service accounts for every kind of mail, and finds, names and reports
 * damage.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const TIMEOUT_MS = 60_000;
const IN_20_DAYS = new Date(Date.now() + 20 * 86_400_000).toISOString();

const FROM = 'Acme <hello@acme.test>';
const sendTest = (to: string | string[], draft: object = {}) =>
  service.send({ from: FROM, to, ...draft }, { key: service.testKey });

const simulated = (name: string, draft: object = {}) => sendTest(`${name}@simulator.test`, draft);

/** The days of the project, by `letterhaus reconcile`. */
async function reconcile(...args: string[]) {
  const { code, stdout, stderr } = await service.cli('reconcile', ...args, '--json');
  assert.equal(stderr, '');
  return { code, days: JSON.parse(stdout).data as Day[] };
}

type Difference = { kind: string; examples: string[]; counter?: string };
type Day = {
  day: string;
  state: string;
  emails: number;
  recipients: number;
  statuses: Record<string, number>;
  differences: Difference[];
};

const sum = (days: readonly Day[], of: (day: Day) => number) =>
  days.reduce((total, day) => total + of(day), 0);

const conditions = () =>
  service.sql(
    `select subject, message from operator_conditions where type = 'reconciliation.difference'`,
  );

/** A day passes, and the service is started again: it checks what is due at once. */
async function passDay(): Promise<void> {
  await service.stop();
  await service.clock.advance({ hours: 26 });
  await service.restart();
}

/** The running service has checked all that was due. */
async function isChecked(): Promise<void> {
  const due = `select from reconciled_days where next_check_at <= app_now() + interval '10 minutes'`;
  const isDone = async () => {
    const [{ finished }] = await service.sql(
      "select finished_at > app_now() - interval '1 minute' as finished from reconciliation",
    );
    return finished === true && (await service.sql(due)).length === 0;
  };
  await waitFor(isDone, { what: 'the service to check what is due', timeoutMs: TIMEOUT_MS });
}

const sent: { live: string[]; several: string; scheduled: string; delivered: string[] } = {
  live: [],
  several: '',
  scheduled: '',
  delivered: [],
};

test('mail of every kind is accounted for after a restart, with nothing to act on', async () => {
  await journey.mailServer('friendly.test', {});
  await journey.mailServer('refusing.test', { phases: { rcpt: '550 5.1.1 No such user' } });
  sent.live = await Promise.all(
    ['jo@friendly.test', 'kim@friendly.test', 'al@refusing.test'].map((to) => journey.send({ to })),
  );
  sent.several = await journey.send({
    to: ['jo@friendly.test', 'lu@friendly.test', 'al@refusing.test'],
    cc: ['mo@friendly.test'],
  });
  for (const id of [...sent.live, sent.several]) await journey.ended(id);
  sent.delivered = await Promise.all(Array.from({ length: 6 }, () => simulated('delivered')));
  const others = await Promise.all(
    ['bounced', 'suppressed', 'blocked', 'complained'].map((name) => simulated(name)),
  );
  await service.request('POST', '/v1/emails/batch', {
    key: service.testKey,
    body: ['delivered+1', 'delivered+2'].map((name) => ({
      from: FROM,
      to: `${name}@simulator.test`,
      subject: 'Hi',
      text: 'Hi',
    })),
  });
  sent.scheduled = await simulated('delivered', { scheduled_at: IN_20_DAYS });
  const canceled = await simulated('delivered', { scheduled_at: IN_20_DAYS });
  const { status } = await service.request('POST', `/v1/emails/${canceled}/cancel`, {
    key: service.testKey,
  });
  assert.equal(status, 200);
  const isQuiet = async () => {
    const [{ open }] = await service.sql('select count(*)::int as open from queue');
    return open === 1;
  };
  await waitFor(isQuiet, { what: 'all but the scheduled email to end', timeoutMs: TIMEOUT_MS });
  assert.ok(others.length === 4);
  await passDay();
  await isChecked();
  assert.deepEqual(await conditions(), []);
  const [stored] = await service.sql(
    'select (select count(*) from emails)::int as emails, (select count(*) from recipients)::int as recipients',
  );
  const { code, days } = await reconcile();
  assert.equal(code, 0);
  assert.deepEqual(
    { emails: sum(days, (day) => day.emails), recipients: sum(days, (day) => day.recipients) },
    stored,
  );
  assert.ok(days.every(({ state }) => state.startsWith('accounted_for')));
  assert.equal(
    sum(days, ({ statuses }) => statuses['open'] ?? 0),
    1,
  );
  const shown = await service.cli('reconcile');
  assert.match(shown.stdout, /DAY +PROJECT +EMAILS +RECIPIENTS .*OPEN +STATE\n\d{4}-\d\d-\d\d /);
  const key = (
    await service.cliJson('keys', 'create', '--project', 'operator', '--environment', 'live')
  ).key;
  const { body } = await service.request('GET', '/v1/operator/reconciliation', { key });
  assert.partialDeepStrictEqual(body, {
    is_accounted_for: true,
    days_differing: 0,
    differences: [],
  });
  assert.ok(body.from <= days[0]!.day && body.to >= days[0]!.day);
  const foreign = await service.request('GET', '/v1/operator/reconciliation', {
    key: service.testKey,
  });
  assert.equal(foreign.status, 403);
});

test('a lost recipient, a lost place in the queue, a lost event and a changed counter are found, named and reported', async () => {
  const [lost, silent] = sent.delivered as [string, string];
  await service.sql('delete from recipients where email_id = $1 and position = 1', [sent.several]);
  await service.sql('delete from queue where email_id = $1', [sent.scheduled]);
  await service.sql('delete from events where subject_id = $1 and seq = 2', [silent]);
  const changed = async () =>
    (
      await service.sql(
        `update stats set emails = emails + 1 where granularity = 'day' and dimension = 'total' and emails > 0
         returning 1`,
      )
    ).length > 0;
  await waitFor(changed, { what: 'the counters to be added up', timeoutMs: TIMEOUT_MS });
  await passDay();
  const [condition] = await waitFor(
    async () => {
      const open = await conditions();
      return open.length > 0 ? open : null;
    },
    { what: 'the condition', timeoutMs: TIMEOUT_MS },
  );
  assert.match(condition.message, /is not accounted for/);
  const { code, days } = await reconcile();
  assert.equal(code, 1);
  const named = (kind: string) =>
    days.flatMap(({ differences }) => differences).filter((one) => one.kind === kind);
  const examples = (kind: string) => named(kind).flatMap((one) => one.examples);
  assert.deepEqual(examples('recipient_missing'), [sent.several]);
  assert.deepEqual(examples('not_queued'), [sent.scheduled]);
  assert.deepEqual(examples('event_missing'), [silent]);
  const counters = new Set(named('accepted_differs').map((one) => one.counter));
  assert.deepEqual(counters, new Set(['recipients', 'emails']));
  assert.ok(!JSON.stringify(days).includes(lost), 'what is not damaged is not named');
  const shown = await service.cli('reconcile');
  assert.match(shown.stdout, /DIFFERENCE/);
  assert.match(shown.stdout, new RegExp(`1 email lacks an event.*${silent}`));
  const attention = await service.cli('attention');
  assert.match(attention.stdout, /reconciliation\.difference/);
  await service.logged(/"event":"reconciliation\.difference"/);
  await service.counted(/^letterhaus_reconciliation_differences [1-9]/m);
});

test('an operator who knows of the differences ends the alarm', async () => {
  const { days } = await reconcile();
  const { day } = days.find(({ differences }) => differences.length > 0)!;
  const none = await service.cli('reconcile', 'acknowledge', '--day', '2020-01-01');
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no difference of 2020-01-01/);
  for (const one of days.filter(({ differences }) => differences.length > 0)) {
    assert.equal((await service.cli('reconcile', 'acknowledge', '--day', one.day)).code, 0);
  }
  assert.deepEqual(await conditions(), []);
  const again = await reconcile('--day', day);
  assert.equal(again.code, 0);
  assert.ok(again.days.some(({ state }) => state === 'acknowledged'));
  const future = await service.cli('reconcile', '--day', '2199-01-01');
  assert.equal(future.code, 2);
  assert.match(future.stderr, /2199-01-01 has not begun/);
});
