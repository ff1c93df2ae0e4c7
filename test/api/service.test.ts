/** Requests of operators to a running service: liveness, readiness, metrics. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { rawText } from '../support/api.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({
  env: { LETTERHAUS_METRICS_PORT: '0', LETTERHAUS_HOSTNAME: 'mail.acme.test' },
  args: ['--workers', '2'],
});
after(() => service[Symbol.asyncDispose]());

const get = (path: string) => service.request('GET', path, { key: null });

/** All samples of `/metrics`, by name and labels. */
async function metrics(): Promise<Map<string, number>> {
  const { status, headers, text } = await service.metrics();
  assert.equal(status, 200);
  assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
  );
}

test('health and readiness need no key', async () => {
  for (const path of ['/healthz', '/readyz']) {
    const { status, body } = await get(path);
    assert.deepEqual([status, body], [200, { status: 'ok' }]);
  }
});

test('metrics need their token on the API port, and none on a separate loopback port', async () => {
  const responses = [await get('/metrics'), await service.request('GET', '/metrics')];
  for (const { status, text } of responses) {
    assert.equal(status, 401);
    assert.doesNotMatch(text, /letterhaus_/);
  }
  assert.match((await service.metrics()).text, /^letterhaus_workers 2$/m);
  const url = service.readyLine.metrics_url ?? '';
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  const response = await fetch(url);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  assert.match(await response.text(), /^letterhaus_workers 2$/m);
  assert.equal((await fetch(new URL('/', url))).status, 404);
});

test('metrics are served by address, localhost and the configured name, and under no other name', async () => {
  const url = service.readyLine.metrics_url ?? '';
  const { port } = new URL(url);
  const statusOf = async (host: string, more = '') => {
    const head = `GET /metrics HTTP/1.1\r\nHost: ${host}\r\n${more}Connection: close\r\n\r\n`;
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(await rawText(url, head))?.[1]);
  };
  for (const host of ['127.0.0.1', 'localhost', 'LOCALHOST', '[::1]', 'mail.acme.test']) {
    assert.deepEqual([await statusOf(host), await statusOf(`${host}:${port}`)], [200, 200], host);
  }
  for (const host of ['rebound.example', 'localhost.example', 'mail.acme.test.example']) {
    assert.equal(await statusOf(`${host}:${port}`), 421, host);
  }
  assert.equal(await statusOf('127.0.0.1', 'Host: rebound.example\r\n'), 400);
  assert.equal(await statusOf('user@127.0.0.1'), 400);
});

test('the API reference is served to everybody, as a page, as OpenAPI and as text', async () => {
  for (const [path, type, has] of [
    ['/docs/reference', 'text/html; charset=utf-8', '<h3><a href="#sendEmail">'],
    ['/openapi.json', 'application/json; charset=utf-8', '"operationId": "sendEmail"'],
    ['/llms.txt', 'text/plain; charset=utf-8', '- POST /v1/emails: '],
  ] as const) {
    const response = await fetch(new URL(path, service.url));
    assert.deepEqual([response.status, response.headers.get('content-type')], [200, type]);
    assert.ok((await response.text()).includes(has), path);
  }
});

test('metrics are summed over all workers', async () => {
  const to = ['delivered', 'bounced', 'full'].map((name) => `${name}@simulator.test`);
  await Promise.all(Array.from({ length: 10 }, () => service.send({ to: to[0] })));
  for (const one of to.slice(1)) await service.send({ to: one });
  const done = async () => {
    const samples = await metrics();
    const attempts = (status: string) =>
      samples.get(`letterhaus_attempts_total{status="${status}"}`);
    const counts = ['delivered', 'bounced'].map(attempts);
    // A full mailbox is tried again after two seconds, four and so on.
    return String(counts) === '10,1' && attempts('deferred')! >= 1 && samples;
  };
  const samples = await waitFor(done, { what: 'all attempts to be counted' });
  assert.equal(samples.get('letterhaus_emails_accepted_total{environment="test"}'), 12);
  for (const name of ['accept', 'attempt', 'first_attempt_after']) {
    assert.ok(samples.get(`letterhaus_${name}_seconds_count`)! >= 12, name);
    assert.ok(samples.has(`letterhaus_${name}_seconds_bucket{le="+Inf"}`), name);
  }
  // Read by one process every few seconds.
  const isCounted = async () => {
    const queue = await metrics();
    const label = '{provider="simulator"}';
    return (
      queue.get('letterhaus_queue_depth') === 1 &&
      queue.get(`letterhaus_queue_provider_depth${label}`) === 1
    );
  };
  await waitFor(isCounted, { what: 'the queue to be counted', everyMs: 250 });
});

test('the log contains no email content and no key', async () => {
  const secret = 'S3CRET-words';
  await service.send({
    to: `${secret}@simulator.test`,
    subject: secret,
    html: secret,
    metadata: { secret },
  });
  await service.request('POST', `/v1/emails?${secret}=1`, { body: `{"to": "${secret}"` });
  await service.request('GET', `/v1/emails?to=${secret}@simulator.test`);
  await service.request('GET', '/v1/emails', { key: `lh_test_${secret}` });
  const { headers } = await service.request('GET', `/v1/emails?subject=${secret}`);
  const id = headers.get('x-request-id') ?? '';
  await waitFor(() => service.logs.includes(id), { what: 'the request in the log' });
  for (const word of [secret, service.testKey, 'hello@acme.test']) {
    assert.ok(!service.logs.includes(word), word);
  }
  const line = service.logs.split('\n').find((one) => one.includes(id)) ?? '';
  assert.equal(JSON.parse(line).request_id, id);
});

test('workers are queried for metrics at most once a second', async () => {
  const accepted = async () =>
    (await metrics()).get('letterhaus_emails_accepted_total{environment="test"}');
  const isOld = async () => {
    const before = await accepted();
    await service.send();
    return (await accepted()) === before;
  };
  await waitFor(isOld, { what: 'a response from before the last email' });
});
