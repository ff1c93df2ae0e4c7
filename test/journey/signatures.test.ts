/** Expiry of signatures, signed fields, and Feedback-ID. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Resolver } from 'node:dns/promises';
import { authenticate } from 'mailauth';
import { startJourney } from '../support/journey.ts';
import { idIn, openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { DAY_S } from '../../src/lib/units.ts';

const journey = await startJourney(SUBMISSION_ENV);
after(() => journey[Symbol.asyncDispose]());

/** Returns the headers that each valid signature names in `h=`. */
async function signedIn(raw: Buffer): Promise<string[][]> {
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  const { dkim } = await authenticate(raw, {
    ip: '127.0.0.1',
    helo: 'out.test',
    sender: 'x@send.acme.example',
    resolver: async (name, type) => (await resolver.resolve(name, type)) as string[],
  });
  return dkim.results.map(({ status, signingHeaders }) => {
    assert.equal(status.result, 'pass');
    return (signingHeaders?.keys ?? '').toLowerCase().split(/\s*[:,]\s*/);
  });
}

const hashesOf = async (id: string): Promise<string[]> =>
  (await journey.timeline(id)).flatMap(({ attempt }) => attempt?.message_sha256 ?? []);

test('a signature expires five days after the email and is the same at each attempt', async () => {
  const mx = await journey.mailServer('expiring.test', { greylist: 1 });
  const id = await journey.send({ to: 'kim@expiring.test', expires_in: 2 * DAY_S });
  await journey.attempted(id);
  await journey.pass({ hours: 5 });
  const { created_at } = await journey.ended(id);
  const signatures = [
    ...mx.messages[0]!.raw.toString().matchAll(/^DKIM-Signature: [^]*? t=(\d+); x=(\d+);/gm),
  ];
  assert.equal(signatures.length, 2);
  const createdS = Math.floor(Date.parse(created_at) / 1000);
  for (const [, signedAt, until] of signatures) {
    assert.deepEqual([Number(signedAt), Number(until)], [createdS, createdS + 7 * DAY_S]);
  }
  const [first, second] = await hashesOf(id);
  assert.ok(first !== undefined && first === second);
});

test('Feedback-ID has one tag, a hash of the project and the domain, unless the email sets its own', async () => {
  const mx = await journey.mailServer('feedback-id.test');
  const to = 'kim@feedback-id.test';
  const ownFeedback = (kind: string) =>
    new RegExp(`^${kind}:[0-9a-f]{16}:acme\\.example:letterhaus$`);
  const order = { name: 'order', value: 'customer-42' };
  const tags = [order, { name: 'feedback_id', value: 'receipt' }];
  const projects = new Set<string | undefined>();
  for (const [draft, feedbackId] of [
    [{ tags }, ownFeedback('receipt')],
    [{}, ownFeedback('untagged')],
    [{ tags: [order] }, ownFeedback('untagged')],
    [{ tags: [{ name: 'feedback_id', value: 'y'.repeat(256) }] }, ownFeedback('y'.repeat(64))],
    [{ tags, headers: { 'feedback-id': 'a:b:c:acme' } }, /^a:b:c:acme$/],
  ] as const) {
    await journey.ended(await journey.send({ to, ...draft }));
    const { raw } = mx.messages.at(-1)!;
    const found = [...raw.toString().matchAll(/^feedback-id: (.*)\r$/gim)];
    const [written = '', ...others] = found.map(([, value]) => value);
    assert.match(written, feedbackId);
    assert.equal(others.length, 0);
    const [, project, , sender] = written.split(':');
    if (sender === 'letterhaus') projects.add(project);
    assert.doesNotMatch(raw.toString(), /customer-42/);
    const signatures = await signedIn(raw);
    assert.equal(signatures.length, 2);
    for (const names of signatures) assert.ok(names.includes('feedback-id'));
  }
  const { body } = await journey.request('GET', '/v1/api-keys/current');
  assert.equal(projects.size, 1);
  assert.doesNotMatch(body.project.id.replaceAll('-', ''), new RegExp([...projects].join('|')));
});

test('a message submitted by SMTP keeps its Feedback-ID or gets one', async () => {
  const mx = await journey.mailServer('feedback-smtp.test');
  const [port = 0] = journey.service.readyLine.submission_ports ?? [];
  const key = await journey.key();
  await using client = await openLoggedIn({ port, key });
  for (const [lines, found] of [
    [['Feedback-ID: a:b:c:acme'], /^Feedback-ID: a:b:c:acme\r$/gim],
    [
      ['X-Letterhaus-Tags: kind=login, feedback_id=login'],
      /^Feedback-ID: login:[0-9a-f]{16}:acme\.example:letterhaus\r$/gim,
    ],
    [
      ['X-Letterhaus-Tags: kind=secret'],
      /^Feedback-ID: untagged:[0-9a-f]{16}:acme\.example:letterhaus\r$/gim,
    ],
  ] as const) {
    const message = ['From: hello@acme.example', ...lines, '', 'Hi'];
    const reply = await submit(client, { to: ['kim@feedback-smtp.test'], lines: message });
    await journey.ended(idIn(reply));
    const { raw } = mx.messages.at(-1)!;
    assert.equal(raw.toString().match(found)?.length, 1);
    assert.equal(raw.toString().match(/^Feedback-ID:/gim)?.length, 1);
    for (const names of await signedIn(raw)) assert.ok(names.includes('feedback-id'));
  }
});
