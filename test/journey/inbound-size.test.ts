/** Reports made to block a worker, and reports of any size: the worker continues to respond. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { handIn, statusReport } from '../support/reports.ts';

const journey = await startJourney(
  { POSTHORN_INBOUND_PORT: '0', POSTHORN_SMTP_HOST: '127.0.0.1' },
  { args: ['--workers', '1'] },
);
after(() => journey[Symbol.asyncDispose]());
const port = journey.service.readyLine.inbound_port ?? 0;

const TAKEN = /^250 2\.6\.0 /;
const POSTMASTER = 'postmaster@send.acme.example';

const HEAD = ['From: MAILER-DAEMON@mx.test', 'Subject: failure notice'];

/** Lines of spaces between words and addresses: 62 KB, which took a worker ten seconds. */
const spaces = [
  ...HEAD,
  '',
  'Your message could not be delivered:',
  ...Array.from({ length: 41 }, () => `${' '.repeat(1_000)}x${' a@b'.repeat(120)}`),
].join('\r\n');

/** 100 fields of 64 KB without an address in them, in the original: 3.7 seconds. */
const fields = [
  ...HEAD,
  'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
  '',
  '--b',
  '',
  'Your message could not be delivered.',
  '--b',
  'Content-Type: message/rfc822',
  '',
  ...Array.from({ length: 100 }, () => `Received: ${'a'.repeat(64_000)}@`),
  '--b--',
].join('\r\n');

/** Generous: a worker that reads as it should is busy for milliseconds. */
const ANSWERED_WITHIN_MS = 2_000;

test('reports made to block a worker do not delay its other requests', async () => {
  const attacks = [spaces, fields, spaces, fields].map((message) =>
    handIn(port, { to: POSTMASTER, message }),
  );
  const handedIn = Promise.all(attacks);
  const over = new AbortController();
  void handedIn.finally(() => over.abort());
  let slowestMs = 0;
  while (!over.signal.aborted) {
    const startedMs = performance.now();
    const { status } = await journey.request('GET', '/v1/emails?limit=1');
    slowestMs = Math.max(slowestMs, performance.now() - startedMs);
    assert.equal(status, 200);
  }
  for (const reply of await handedIn) assert.match(reply, TAKEN);
  assert.ok(slowestMs < ANSWERED_WITHIN_MS, `one answer took ${Math.round(slowestMs)} ms`);
});

test('a bounce that quotes an original of 40 MB is accepted and settled', async () => {
  const mx = await journey.mailServer('large.test');
  const id = await journey.send({ to: 'jo@large.test' });
  await journey.ended(id);
  const to = mx.messages[0]?.envelopeFrom ?? '';
  const quoted = `${'x'.repeat(70)}\r\n`.repeat(560_000);
  const message = statusReport({ recipient: 'jo@large.test' }).replace('--b--', `${quoted}--b--`);
  assert.match(await handIn(port, { to, message }), TAKEN);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);
  const [kept] = await journey.service.sql(
    `select size_bytes, octet_length(content) as bytes from inbound_messages
     where change = 'bounced'`,
  );
  assert.ok(kept.size_bytes > 39_000_000, `${kept.size_bytes}`);
  assert.ok(kept.bytes <= 256 * 1024, `${kept.bytes}`);
});
