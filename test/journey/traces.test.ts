/** OpenTelemetry: with the SDK of docs/monitoring.md, a collector gets the spans of an email. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { startJourney } from '../support/journey.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const ROOT = join(import.meta.dirname, '../..');
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;

const collector = await startOtlpReceiver();
const journey = await startJourney({
  NODE_OPTIONS: `--import ${pathToFileURL(sdkOfTheManual()).href}`,
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_BSP_SCHEDULE_DELAY: '50',
});
const { service } = journey;
await journey.mailServer('traced.test', {
  messageReplies: { lee: ['451 4.7.1 Greylisted, try later', '250 2.0.0 Taken'] },
});
after(async () => {
  await journey[Symbol.asyncDispose]();
  await collector[Symbol.asyncDispose]();
});

/** Writes the file that the manual shows, beside the packages that it needs. Returns its path. */
function sdkOfTheManual(): string {
  const manual = readFileSync(join(ROOT, 'docs/monitoring.md'), 'utf8');
  const code = /```js\n(.*?)```/s.exec(manual.slice(manual.indexOf('## Traces')))![1]!;
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-traces-'));
  after(() => rmSync(folder, { recursive: true }));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const file = join(folder, 'tracing.mjs');
  writeFileSync(file, code);
  return file;
}

async function send(to: string, traceparent?: string): Promise<string> {
  const headers = traceparent === undefined ? {} : { traceparent };
  const body = { from: 'a@acme.example', to, subject: 'A secret subject', text: 'Hi' };
  const key = await journey.key();
  const response = await service.request('POST', '/v1/emails', { key, body, headers });
  assert.equal(response.status, 202, response.text);
  return response.body.id;
}

test('accepting continues the trace of the request, and attempts and webhooks link to it', async () => {
  await using receiver = await startReceiver();
  const { body: endpoint } = await journey.request('POST', '/v1/webhooks', {
    url: receiver.url,
    events: ['email.delivered'],
  });
  const id = await send('kim@traced.test', TRACEPARENT);

  const attempt = await collector.waitForSpan('deliver', { 'letterhaus.email.id': id });
  const accept = await collector.waitForSpan('accept email', {
    'letterhaus.outcome': 'accepted',
  });
  assert.equal(accept.traceId, TRACE);
  assert.equal(accept.parentSpanId, '00f067aa0ba902b7');
  const links = [{ traceId: TRACE, spanId: accept.spanId }];
  const idsOf = ({ traceId, spanId }: { traceId: string; spanId: string }) => ({ traceId, spanId });
  assert.deepEqual(attempt.links.map(idsOf), links);
  assert.notEqual(attempt.traceId, TRACE, 'an attempt is a trace of its own');
  assert.equal(attempt.attributes['letterhaus.recipient.domain'], 'traced.test');
  assert.equal(attempt.attributes['smtp.response.status_code'], 250);
  assert.equal(attempt.isError, false);

  const [call] = await receiver.waitForCount(1);
  // The endpoint of the journey gets the same event, in another span.
  const webhook = await collector.waitForSpan('webhook', {
    'server.address': '127.0.0.1',
    'letterhaus.event.id': call!.id,
    'letterhaus.webhook.id': endpoint.id,
  });
  assert.deepEqual(webhook.links.map(idsOf), links);
  assert.equal(webhook.attributes['http.response.status_code'], 200);
  const { traceId, spanId } = webhook;
  assert.equal(call!.headers['traceparent'], `00-${traceId}-${spanId}-01`);
});

test('a retry links to the trace as well, also after a restart, and names the reason of a failure', async () => {
  const id = await send('lee@traced.test', TRACEPARENT);
  const deferred = await collector.waitForSpan('deliver', { 'letterhaus.email.id': id });
  assert.equal(deferred.isError, true);
  assert.equal(deferred.attributes['error.type'], 'greylist');
  await service.stop();
  await service.restart();
  await journey.pass({ hours: 1 });
  const second = { 'letterhaus.email.id': id, 'letterhaus.attempt': 2 };
  const retry = await collector.waitForSpan('deliver', second);
  assert.equal(retry.links[0]?.traceId, TRACE);
  assert.equal(retry.isError, false);
});

test('a traceparent that is not valid is ignored, and the email gets a trace of its own', async () => {
  const id = await send('max@traced.test', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`);
  const { links } = await collector.waitForSpan('deliver', { 'letterhaus.email.id': id });
  assert.match(links[0]!.traceId, /^(?!0{32})[0-9a-f]{32}$/);
  assert.notEqual(links[0]!.traceId, TRACE);
});

test('a refused email is a failed span, and no span has an address, a subject or a reply', async () => {
  const body = { from: 'a@other.example', to: 'kim@traced.test', subject: 'A secret subject' };
  const response = await journey.request('POST', '/v1/emails', { ...body, text: 'Hi' });
  assert.ok(response.status >= 400, response.text);
  const span = await collector.waitForSpan('accept email', { 'letterhaus.outcome': 'refused' });
  assert.equal(span.isError, true);
  const sent = collector.bodies.join();
  for (const text of ['@traced.test', '@acme.example', 'secret subject', 'Greylisted, try']) {
    assert.ok(!sent.includes(text), text);
  }
});
