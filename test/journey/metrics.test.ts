/**
 * `/metrics` of a running service counts each event, which the test provokes. The names follow the
 * rules of `promtool check metrics`, and are those of docs/monitoring.md (test/tidy/alarm-kit.test.ts: the alarm rules
 * and dashboards use no others).
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Browser } from '../support/browser.ts';
import { documentedMetrics } from '../support/documented-metrics.ts';
import { startJourney } from '../support/journey.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { openLoggedIn, logIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const journey = await startJourney(
  {
    ...SUBMISSION_ENV,
    LETTERHAUS_INBOUND_PORT: '0',
    LETTERHAUS_METRICS_PORT: '0',
    LETTERHAUS_DATABASE_MAX_MB: '100000',
    LETTERHAUS_LOG: 'warn',
  },
  { args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

type Family = { type: string; help: string; samples: { labels: string; value: number }[] };

/** By name, without the endings of histograms. */
async function families(): Promise<Map<string, Family>> {
  // The supervisor answers there, and it outlives workers.
  const response = await fetch(service.readyLine.metrics_url ?? '');
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const found = new Map<string, Family>();
  for (const line of text.split('\n')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    const family = found.get(name) ?? { type: '', help: '', samples: [] };
    if (kind === 'HELP') found.set(name, { ...family, help: rest });
    if (kind === 'TYPE') found.set(name, { ...family, type: rest });
    const [, sample = '', labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (value === undefined) continue;
    const base = found.has(sample) ? sample : sample.replace(/_(?:bucket|sum|count)$/, '');
    found.get(base)?.samples.push({ labels, value: Number(value) });
  }
  return found;
}

/** Returns the value of the sample with these labels, in the order of the text. */
async function valueOf(name: string, labels = ''): Promise<number | null> {
  const family = (await families()).get(`letterhaus_${name}`);
  return family?.samples.find((sample) => sample.labels === labels)?.value ?? null;
}

/** Waits until a sample passes. */
async function becomes(
  name: string,
  labels: string,
  passes: (value: number) => boolean,
): Promise<void> {
  const isReached = async () => {
    const value = await valueOf(name, labels);
    return value !== null && passes(value);
  };
  await waitFor(isReached, { what: `${name}{${labels}}`, everyMs: 250, timeoutMs: 60_000 });
}

const atLeast = (least: number) => (value: number) => value >= least;

test('refused, deferred and delivered mail is counted by provider, reason and reply', async () => {
  await journey.mailServer('bounces.test', {
    phases: { rcpt: { reply: '550 5.1.1 No such user here' } },
  });
  await journey.mailServer('full.test', { phases: { rcpt: { reply: '452 4.2.2 Mailbox full' } } });
  await journey.mailServer('odd.test', { phases: { rcpt: { reply: '598 5.9.9 Odd' } } });
  await journey.mailServer('good.test');
  for (const domain of ['bounces', 'full', 'odd', 'good', 'no-such']) {
    await journey.send({ to: `jo@${domain}.test` });
  }
  const other = 'provider="other"';
  await becomes('bounces_total', `${other},category="mailbox",blame="recipient"`, atLeast(2));
  await becomes('deferrals_total', `${other},category="quota",blame="recipient"`, atLeast(1));
  await becomes('smtp_replies_total', `${other},code="550"`, atLeast(1));
  await becomes('smtp_replies_total', `${other},code="452"`, atLeast(1));
  await becomes('smtp_replies_total', `${other},code="5xx"`, atLeast(1));
  await becomes('smtp_replies_total', `${other},code="250"`, atLeast(1));
  await becomes('smtp_replies_total', `${other},code="none"`, atLeast(1));
  await becomes('dns_lookups_total', 'type="MX",result="nxdomain"', atLeast(1));
  await becomes('dns_lookups_total', 'type="MX",result="records"', atLeast(4));
  await becomes('attempts_total', 'status="delivered"', atLeast(1));
});

test('requests are counted by status, and log-ins by their result', async () => {
  const key = 'lh_live_wrong';
  const body = { from: 'us@acme.example', to: 'jo@good.test', subject: 'Hi' };
  assert.equal((await service.request('POST', '/v1/emails', { key, body })).status, 401);
  assert.equal((await journey.request('POST', '/v1/emails', body)).status, 422);
  const guess = { email: 'nobody@acme.example', password: 'wrong password' };
  assert.equal((await new Browser(service).post('/v1/session', guess)).status, 401);
  const accept = 'kind="accept",method="POST"';
  await becomes('http_requests_total', `${accept},status="202"`, atLeast(5));
  await becomes('http_requests_total', `${accept},status="401"`, atLeast(1));
  await becomes('http_requests_total', `${accept},status="422"`, atLeast(1));
  await becomes('log_ins_total', 'way="api_key",result="refused"', atLeast(1));
  await becomes('log_ins_total', 'way="password",result="refused"', atLeast(1));
  assert.equal(await valueOf('log_ins_total', 'way="password",result="ok"'), 0);
});

test('replies of the mail ports are counted by code, and log-ins there', async () => {
  const [port = 0] = service.readyLine.submission_ports ?? [];
  const dialogue = await openLoggedIn({ port, key: await journey.key() });
  const lines = ['From: us@acme.example', 'Subject: Hi', '', 'Hi'];
  assert.match((await submit(dialogue, { to: ['jo@good.test'], lines })) ?? '', /^250 /);
  const stranger = await Dialogue.greeted(port);
  await stranger.startTls();
  await stranger.ask('EHLO app.test');
  assert.match((await logIn(stranger, 'letterhaus', 'lh_live_wrong')) ?? '', /^535 /);
  await Dialogue.greeted(service.readyLine.inbound_port ?? 0);
  await becomes('smtp_server_replies_total', 'port="submission",code="235"', atLeast(1));
  await becomes('smtp_server_replies_total', 'port="submission",code="535"', atLeast(1));
  await becomes('smtp_server_replies_total', 'port="inbound",code="220"', atLeast(1));
  await becomes('log_ins_total', 'way="smtp",result="ok"', atLeast(1));
  await becomes('log_ins_total', 'way="smtp",result="refused"', atLeast(1));
});

test('webhook deliveries are counted by their outcome, and endpoints by their state', async () => {
  await using failing = await startReceiver();
  failing.behaviour = 500;
  await journey.request('POST', '/v1/webhooks', { url: failing.url });
  await journey.send({ to: 'jo@good.test' });
  await becomes('webhook_attempts_total', 'result="delivered"', atLeast(1));
  await becomes('webhook_attempts_total', 'result="retried"', atLeast(1));
  await becomes('webhook_endpoints', 'state="failing"', atLeast(1));
  await becomes('webhook_queue_depth', '', atLeast(1));
});

test('the machine, its database, its certificate and the domains have figures', async () => {
  await becomes('domains', 'status="verified"', (value) => value === 1);
  await becomes('domain_verified', 'domain="acme.example"', (value) => value === 1);
  await becomes('database_up', '', (value) => value === 1);
  await becomes('database_size_bytes', '', atLeast(1e6));
  await becomes('database_connections', '', atLeast(1));
  assert.equal(await valueOf('database_size_limit_bytes'), 100_000 * 1024 ** 2);
  assert.ok((await valueOf('disk_free_bytes', 'of="data"'))! > 0);
  assert.ok((await valueOf('disk_size_bytes', 'of="data"'))! > 0);
  assert.ok((await valueOf('certificate_expiry_timestamp_seconds', 'of="mail"'))! > 0);
  assert.ok((await valueOf('certificate_lifetime_seconds', 'of="mail"'))! > 86_400);
  assert.equal(await valueOf('workers'), 2);
  assert.equal(await valueOf('unready', 'reason="disk_full"'), 0);
  const build = (await families()).get('letterhaus_build_info')?.samples ?? [];
  assert.match(build[0]?.labels ?? '', /^version="\d+\.\d+\.\d+",node="\d+.*",postgres="\d+.*"$/);
});

test('mail that waits for a suspended provider is counted as waiting', async () => {
  await journey.mailServer('down.test', { phases: { greeting: { drop: 'fin' } } });
  const count = 21;
  for (let index = 0; index < count; index += 1) {
    await journey.send({ to: `jo${index}@down.test` });
  }
  const isSuspended = () =>
    service.sql(`select from providers where state = 'suspended'`).then((rows) => rows.length > 0);
  await waitFor(isSuspended, { what: 'the provider to be suspended' });
  await becomes('provider_suspended', 'provider="other"', atLeast(1));
  await becomes('queue_provider_depth', 'provider="other"', atLeast(count));
  // None of it is due, because the suspension deferred it.
  await service.sql(`update emails set created_at = created_at - interval '1 hour'`);
  await becomes('queue_oldest_due_seconds', '', atLeast(3_600));
  await becomes('queue_provider_oldest_due_seconds', 'provider="other"', atLeast(3_600));
});

test('a worker that dies is counted, and another one takes its place', async () => {
  const [pid] = await service.workerPids();
  process.kill(pid!, 'SIGKILL');
  await becomes('workers_died_total', '', atLeast(1));
  await becomes('workers', '', (value) => value === 2);
  assert.equal(await valueOf('workers_wanted'), 2);
});

/** Rules of `promtool check metrics`, by its documentation and source. */
const UNITS_NOT_BASE =
  /_(?:milli|micro|nano|kilo|mega|giga|kibi|mebi)?(?:minutes?|hours?|days?|weeks?|milliseconds|microseconds|nanoseconds|kilobytes|megabytes|gigabytes|kibibytes|mebibytes|bits?|percent|celcius|fahrenheit)(?:_|$)/;
const ABBREVIATED = /_(?:s|ms|us|ns|sec|b|kb|mb|gb|tb|pb|m|h|d)(?:_|$)/;

function problemsOf(name: string, { type, help, samples }: Family): string[] {
  const rules: [boolean, string][] = [
    [help === '', 'no help text'],
    [type === 'counter' && !name.endsWith('_total'), 'a counter ends in _total'],
    [type !== 'counter' && name.endsWith('_total'), 'only a counter ends in _total'],
    [type !== 'histogram' && /_(?:bucket|count|sum)$/.test(name), 'an ending of histograms'],
    [/_(?:counter|gauge|histogram|summary|untyped)(?:_|$)/.test(name), 'the type is in the name'],
    [!/^letterhaus_[a-z][a-z_]*$/.test(name), 'not in snake_case, or without the prefix'],
    [UNITS_NOT_BASE.test(name), 'not in a base unit'],
    [ABBREVIATED.test(name), 'an abbreviated unit'],
    [name.endsWith('_info') && samples.some(({ value }) => value !== 1), '_info is always 1'],
    [samples.length > 1_000, 'too many series'],
    [
      new Set(samples.map(({ labels }) => labels)).size < samples.length && type !== 'histogram',
      'a series is there twice',
    ],
    [
      samples.some(({ labels }) => /@|\.test"/.test(labels)),
      'an address or a domain of recipients is a label',
    ],
  ];
  return rules.filter(([isBroken]) => isBroken).map(([, rule]) => `${name}: ${rule}`);
}

test('the names of metrics follow the rules of Prometheus, and labels name no recipient', async () => {
  const found = await families();
  assert.deepEqual(
    [...found].flatMap(([name, family]) => problemsOf(name, family)),
    [],
  );
  const bad: [string, Family['type']][] = [
    ['letterhaus_mails', 'counter'],
    ['letterhaus_wait_milliseconds', 'gauge'],
    ['letterhaus_wait_ms', 'gauge'],
    ['letterhaus_depth_gauge', 'gauge'],
    ['letterhaus_depth_total', 'gauge'],
    ['letterhausDepth', 'gauge'],
  ];
  for (const [name, type] of bad) {
    const samples = [{ labels: '', value: 1 }];
    assert.equal(problemsOf(name, { type, help: 'Help.', samples }).length, 1, name);
  }
});

/** Without `le`, which all histograms have. */
function labelNames(labels: string): string[] {
  const names = [...labels.matchAll(/(?:^|,)(\w+)="/g)].map(([, name = '']) => name);
  return names.filter((name) => name !== 'le');
}

test('docs/monitoring.md lists every metric with its type and labels, and no other', async () => {
  await becomes('database_up', '', (value) => value === 1);
  const found = await families();
  const table = documentedMetrics();
  const documented = new Map(table.map((metric) => [metric.name, metric]));
  for (const [name, { type, samples }] of found) {
    assert.equal(documented.get(name)?.type, type, name);
    const labels = new Set(samples.flatMap((sample) => labelNames(sample.labels)));
    if (samples.length === 0) continue;
    assert.deepEqual([...labels].toSorted(), documented.get(name)?.labels.toSorted(), name);
  }
  for (const { name, isAlways } of table) {
    if (isAlways) assert.ok(found.has(name), `${name} is documented and not there`);
  }
});

test('while the database does not answer, metrics are served, and say so', async () => {
  await service.setDatabaseReachable(false);
  await becomes('database_up', '', (value) => value === 0);
  await becomes('unready', 'reason="database_unavailable"', (value) => value === 1);
  assert.ok((await valueOf('queue_depth')) !== null, 'the last figures stay');
  await service.setDatabaseReachable(true);
  await becomes('database_up', '', (value) => value === 1);
  await becomes('unready', 'reason="database_unavailable"', (value) => value === 0);
});
