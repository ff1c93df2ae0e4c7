/** Reputation alerts: events, warnings in lists, and recovery. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { runLoad } from '../support/load.ts';
import { eventually, waitFor } from '../support/wait.ts';

const journey = await startJourney(
  { LETTERHAUS_REPUTATION_INTERVAL_S: '1', LETTERHAUS_LOG: 'warn' },
  { environment: 'test', args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const key = await journey.key();

let sent = 0;

/** So many to each; all have ended when it returns. */
async function sendMany(from: string, counts: Record<string, number>): Promise<void> {
  const to = Object.entries(counts).flatMap(([name, count]) =>
    Array.from({ length: count }, () => `${name}+${++sent}@simulator.test`),
  );
  const load = await runLoad(service, { key, count: to.length, from, to: (index) => to[index]! });
  assert.equal(load.accepted.length, to.length);
  const open = () =>
    service.sql('select from emails where id = any($1) and open_count > 0', [load.accepted]);
  await waitFor(async () => (await open()).length === 0, {
    what: 'all emails to end',
    timeoutMs: 60_000,
  });
}

async function newSender(name: string): Promise<string> {
  const added = await journey.request('POST', '/v1/domains', { name });
  await journey.request('POST', `/v1/domains/${added.body.id}/verify`);
  return `Acme <hello@${name}>`;
}

async function counted(domain: string) {
  const [row] = await service.sql(
    `select sum(ended)::int as ended, sum(bounced)::int as bounced,
            sum(complained)::int as complained from reputation_counts where domain = $1`,
    [domain],
  );
  return row;
}

async function adviceFor(domain: string): Promise<string[]> {
  const { body } = await journey.request('GET', '/v1/domains?limit=100');
  const found = body.data.find(({ name }: { name: string }) => name === domain);
  return found.advice
    .filter(({ about }: { about: string }) => about === 'reputation')
    .map(({ message }: { message: string }) => message);
}

const alertEvent = (domain: string, state: string) =>
  journey.webhook(
    ({ type, data }) =>
      type === 'project.reputation_alert' && data.domain === domain && data.state === state,
  );

test('a bounce rate above the limit raises an alert, and its recovery ends it', async () => {
  assert.equal((await service.cli('projects', 'set-reputation-alert', '--min', '20')).code, 0);
  const from = await newSender('bouncing.test');
  await sendMany(from, { delivered: 18, bounced: 2 });
  const event = await alertEvent('bouncing.test', 'raised');
  const { project_id, since, ...data } = event.data;
  assert.deepEqual(data, {
    environment: 'test',
    domain: 'bouncing.test',
    kind: 'bounce',
    state: 'raised',
    rate: '10%',
    threshold: '5%',
    count: 2,
    ended: 20,
    paused: false,
  });
  const [advice, ...others] = await adviceFor('bouncing.test');
  assert.match(advice!, /^2 of 20 emails of 24 hours bounced \(10%, more than 5%\) since 20/);
  assert.ok(advice!.includes(since));
  assert.deepEqual(others, []);
  const projects = await journey.request('GET', '/v1/projects');
  assert.deepEqual(projects.body.data[0].warnings, [
    { about: 'reputation', environment: 'test', domain: 'bouncing.test', message: advice },
  ]);
  const listed = await service.cliJson('projects', 'list');
  assert.equal(listed.data[0].id, project_id);
  assert.partialDeepStrictEqual(listed.data[0].warnings, [{ rate: '10%', message: advice }]);
  for (const noun of ['projects', 'domains']) {
    const { stdout } = await service.cli(noun, 'list');
    assert.ok(stdout.includes(advice!), stdout);
  }
  const metric = /^letterhaus_reputation_rate\{.*domain="bouncing\.test",kind="bounce".*\} 0\.1$/m;
  const isMeasured = async () => metric.test((await service.metrics()).text);
  await waitFor(isMeasured, { what: 'the metric', everyMs: 250 });

  await journey.pass({ hours: 25 });
  await waitFor(
    async () =>
      (await service.sql('select from reputation_alerts where below_since > $1', [since])).length,
    { what: 'the reputation watch to see that it is better' },
  );
  await journey.pass({ hours: 1 });
  const cleared = await alertEvent('bouncing.test', 'cleared');
  assert.deepEqual([cleared.data.kind, cleared.data.since], ['bounce', since]);
  assert.deepEqual(await adviceFor('bouncing.test'), []);
});

test('the complaint rate is measured separately, over emails that have ended', async () => {
  const from = await newSender('complained.test');
  await sendMany(from, { delivered: 19, complained: 1 });
  const { data } = await alertEvent('complained.test', 'raised');
  assert.deepEqual([data.kind, data.rate, data.threshold], ['complaint', '5%', '0.3%']);
  assert.deepEqual(await counted('complained.test'), { ended: 20, bounced: 0, complained: 1 });
});

test('no alert is raised below the minimum number of emails or by anything but bounces', async () => {
  const few = await newSender('few.test');
  const blocked = await newSender('suppressed.test');
  const last = await newSender('last.test');
  await sendMany(few, { delivered: 4, bounced: 15 });
  await sendMany(blocked, { delivered: 20, suppressed: 20 });
  await sendMany(last, { bounced: 20 });
  await alertEvent('last.test', 'raised');
  // Each worker writes its counts every few seconds.
  await eventually(async () => {
    assert.deepEqual(await counted('few.test'), { ended: 19, bounced: 15, complained: 0 });
    assert.deepEqual(await counted('suppressed.test'), { ended: 20, bounced: 0, complained: 0 });
  });
  const active = await service.sql('select domain from reputation_alerts order by domain');
  assert.deepEqual(
    active.map(({ domain }) => domain),
    ['complained.test', 'last.test'],
  );
});

test("a paused domain's new mail waits until it is resumed, and other mail does not", async () => {
  await service.cliJson('projects', 'set-reputation-alert', '--pause');
  const from = await newSender('paused.test');
  const other = await newSender('beside.test');
  const waiting = await journey.send({ from, to: 'full@simulator.test' });
  await journey.attempted(waiting);
  await sendMany(from, { delivered: 18, bounced: 2 });
  assert.equal((await alertEvent('paused.test', 'raised')).data.paused, true);
  const [advice] = await adviceFor('paused.test');
  assert.match(advice!, /New mail from this domain is accepted and put on hold/);

  const onHold = await journey.send({ from, to: 'delivered+held@simulator.test' });
  const single = await journey.send({ from, to: 'delivered+single@simulator.test' });
  await sendMany(other, { delivered: 1 });
  const isOnHold = async (id: string) => {
    const [row] = await service.sql('select held from queue where email_id = $1', [id]);
    return row?.held === true;
  };
  assert.ok((await isOnHold(onHold)) && (await isOnHold(single)));
  // An email that is due again is put on hold instead of being tried.
  assert.equal((await service.cli('queue', 'retry', '--email', waiting)).code, 0);
  await waitFor(() => isOnHold(waiting), { what: 'the mail that was due to be put on hold' });
  assert.equal((await journey.email(onHold)).status, 'queued');

  assert.equal((await service.cli('queue', 'release', '--email', single)).code, 0);
  assert.equal((await journey.ended(single)).status, 'delivered');
  assert.ok(await isOnHold(onHold), 'the others still wait');

  const { resumed } = await service.cliJson(
    'projects',
    'set-reputation-alert',
    '--resume',
    '--no-pause',
  );
  assert.deepEqual(resumed, { domains: ['paused.test'], released: 2 });
  assert.equal((await journey.ended(onHold)).status, 'delivered');
  await sendMany(from, { delivered: 1 });
  assert.equal((await service.cli('queue', 'drop', '--email', waiting, '--yes')).code, 0);
});

test('a project can have its own limits, or none', async () => {
  const set = async (...words: string[]) => {
    const { reputation_alert: alert } = await service.cliJson(
      'projects',
      'set-reputation-alert',
      ...words,
    );
    return alert;
  };
  const strict = { on: true, bounces: '2.5%', complaints: '0.1%', min: 20, pause: false };
  assert.deepEqual(await set('--bounces', '2.5%', '--complaints', '0.1%'), strict);
  const standard = { on: true, bounces: '5%', complaints: '0.3%', min: 500, pause: false };
  const defaults = ['--bounces', 'default', '--complaints', 'default', '--min', 'default'];
  assert.deepEqual(await set(...defaults), standard);
  assert.deepEqual(await set('--off'), { ...standard, on: false });
  const { reputation_alert: byFirstName } = await service.cliJson('projects', 'set-guard');
  assert.deepEqual(byFirstName, standard, 'the first name of the command still works');
  assert.deepEqual(await set('--off'), { ...standard, on: false });
  const all = () => service.sql('select from reputation_alerts');
  await waitFor(async () => (await all()).length === 0, { what: 'the warnings to go' });
});
