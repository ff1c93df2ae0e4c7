/**
 * Who a message is from, over SMTP submission: what is checked is what is signed and sent. A key that
 * may only send, and only from acme.example, tries to have somebody else's name delivered.
 */
import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import { after, test } from 'node:test';
import { authenticate } from 'mailauth';
import PostalMime from 'postal-mime';
import { startJourney } from '../support/journey.ts';
import { idIn, loggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';

const journey = await startJourney({ ...SUBMISSION_ENV, POSTHORN_LOG: 'info' });
after(() => journey[Symbol.asyncDispose]());

const [port = 0] = journey.service.readyLine.submission_ports ?? [];
const rights = { name: 'app', permission: 'sending_access', domain: 'acme.example' };
const made = await journey.request('POST', '/v1/api-keys', rights);
assert.equal(made.status, 201, made.text);
const key = made.body.key as string;

const OWN = 'From: hello@acme.example';

/** The replies to messages whose headers consist of these lines, each in a session of its own. */
async function repliesTo(to: string, headers: readonly (readonly string[])[]): Promise<string[]> {
  const replies: string[] = [];
  for (const lines of headers) {
    await using client = await loggedIn({ port, key });
    replies.push((await submit(client, { to: [to], lines: [...lines, '', 'Hi'] })) ?? 'hung up');
  }
  return replies;
}

async function signersOf(raw: Buffer): Promise<string[]> {
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  const { dkim } = await authenticate(raw, {
    ip: '127.0.0.1',
    helo: 'out.test',
    sender: 'x@send.acme.example',
    resolver: async (name, type) => (await resolver.resolve(name, type)) as string[],
  });
  return dkim.results.map(({ signingDomain, status }) => `${signingDomain} ${status.result}`);
}

const ofSpaces = (lines: number) => Array.from({ length: lines }, () => ' '.repeat(990));

test('a From that the key may not use is refused in every syntax', async () => {
  const to = 'kim@author.test';
  const mx = await journey.mailServer('author.test');
  const ways = [
    [OWN, ...ofSpaces(68), ' <ceo@bank.example>'],
    [OWN, ...ofSpaces(1), ' <ceo@bank.example>'],
    [`${OWN} <ceo@bank.example>`],
    ['From: "hello@acme.example" <ceo@bank.example>'],
    ['From: hello@acme.example <ceo@bank.example> <hello@acme.example>'],
    ['From: ceo@bank.example, hello@acme.example'],
    ['From: hello@acme.example; ceo@bank.example'],
    ['From: Staff: hello@acme.example, ceo@bank.example;'],
    ['From: Staff: hello@acme.example;'],
    ['From: ceo@bank.example (<hello@acme.example>)'],
    ['From: (hello@acme.example) ceo@bank.example'],
    ['From: "ceo@bank.example"@acme.example'],
    ['From: <@acme.example:ceo@bank.example>'],
    ['From: =?utf-8?q?ceo=40bank=2Eexample?= <hello@acme.example', ' >, ceo@bank.example'],
    ['From: =?utf-8?q?ceo=40bank=2Eexample=00?=@acme.example'],
    ['From: =?utf-8?q?ceo=40bank=2Eexample=0A?= <hello@acme.example>'],
    ['From: ceo@bank.example\u2028 <hello@acme.example>'],
    ['From: ceo@bank.exämple'],
    ['From: hello@ac\u00adme.example'],
    ['From: hello@acme.example\u00a0'],
    ['From: Acme <hello@acme\u3002example>'],
    ['From:'],
    ['From: <>'],
    [OWN, 'From: ceo@bank.example'],
    ['fRoM: ceo@bank.example', OWN],
    [OWN, 'From : ceo@bank.example'],
    ['From : ceo@bank.example'],
    ['From\t: hello@acme.example'],
    [OWN, 'From\u00a0: ceo@bank.example'],
    [OWN, 'From\u200b: ceo@bank.example'],
    [OWN, 'From'],
    ['From ceo@bank.example Sat Nov 21 08:30:00 2026', OWN],
    [' From: ceo@bank.example', OWN],
    [OWN, `${'x'.repeat(250)}: y`],
    [OWN, ...Array.from({ length: 1_000 }, () => 'X: y')],
    [OWN, `X: ${'y '.repeat(400)}`, ...Array.from({ length: 90 }, () => ` ${'y '.repeat(400)}`)],
    [`From: ${'long '.repeat(180)}`, ` ${'name '.repeat(20)}<hello@acme.example>`],
    [OWN, ' ', 'From: ceo@bank.example'],
    [OWN, 'X: y', '\t \t', 'Z: z'],
  ];
  for (const [index, reply] of (await repliesTo(to, ways)).entries()) {
    assert.match(reply, /^55[04] 5\.[67]\.[01] /, ways[index]!.join('\n').slice(0, 200));
  }
  await using client = await loggedIn({ port, key });
  const nul = await submit(client, { to: [to], lines: [`${OWN}\0 <ceo@bank.example>`, '', 'Hi'] });
  assert.match(nul ?? '', /^554 5\.6\.0 .*NUL/);
  await journey.ended(idIn((await repliesTo(to, [[OWN]]))[0]!));
  assert.equal(mx.messages.length, 1);
});

test('a bare CR or LF before a second From ends the session', async () => {
  for (const lineEnd of ['\r', '\n', '\r\r\n', '\n\r\n']) {
    const [reply] = await repliesTo('kim@bare-ends.test', [
      [`${OWN}${lineEnd}From: ceo@bank.example`],
    ]);
    assert.match(reply ?? '', /^(?:5\d\d |hung up)/, JSON.stringify(lineEnd));
  }
});

test('Sender and Resent fields are refused for an address that the key may not use', async () => {
  const to = 'kim@sender.test';
  const mx = await journey.mailServer('sender.test');
  const refused = [
    [OWN, 'Sender: ceo@bank.example'],
    ['sEnDeR: CEO <ceo@bank.example>', OWN],
    [OWN, 'Sender: hello@acme.example, ceo@bank.example'],
    [OWN, 'Sender:'],
    [OWN, 'Sender: ceo@sub.acme.example'],
    [OWN, 'Resent-From: ceo@bank.example'],
    [OWN, 'resent-sender: ceo@bank.example'],
    [OWN, 'Resent-Bcc: kim@sender.test'],
  ];
  for (const [index, reply] of (await repliesTo(to, refused)).entries()) {
    assert.match(reply, /^550 5\.7\.1 (?:Sender|Resent-\w+): /i, refused[index]!.join('\n'));
  }
  const own = [OWN, 'Sender: "The robot" <robot@ACME.example>'];
  await journey.ended(idIn((await repliesTo(to, [own]))[0]!));
  assert.match(mx.messages[0]!.raw.toString(), /^Sender: "The robot" <robot@ACME\.example>\r$/m);
  assert.equal(mx.messages.length, 1);

  const quoted = { from: '"ceo@bank.example"@acme.example', to, subject: 'x', text: 'x' };
  assert.equal((await journey.request('POST', '/v1/emails', quoted)).status, 422);
  for (const name of ['Sender', 'Resent-From', 'resent-sender', 'Resent-To']) {
    const headers = { [name]: 'ceo@bank.example' };
    const body = { from: 'hello@acme.example', to, subject: 'x', text: 'x', headers };
    const answer = await journey.request('POST', '/v1/emails', body);
    assert.equal(answer.status, 422, answer.text);
    assert.match(answer.body.error.message, /is written by the service/);
  }
});

test('every usual syntax of From is accepted and signed by its domain', async () => {
  const mx = await journey.mailServer('usual.test');
  const ways = [
    'From: hello@acme.example',
    'from:<hello@acme.example>',
    'FROM: "Acme, Inc. (\\"Shop\\")" <hello@acme.example>',
    'From:\tAcme Shop\r\n\t<hello@acme.example>',
    'From: =?utf-8?Q?J=C3=B6rg?= =?utf-8?B?wrDCsA==?= <hello@acme.example>',
    'From: Jörg bei Acme <hello@acme.example>',
    'From: Acme <hello@ACME.example>',
  ];
  for (const reply of await repliesTo(
    'kim@usual.test',
    ways.map((line) => [line]),
  )) {
    await journey.ended(idIn(reply));
  }
  assert.equal(mx.messages.length, ways.length);
  for (const { raw } of mx.messages) {
    const { from } = await PostalMime.parse(raw);
    assert.equal(from?.address?.toLowerCase(), 'hello@acme.example');
    assert.deepEqual(await signersOf(raw), ['acme.example pass', 'acme.example pass']);
  }
});

test('stored mail whose From is not of the signing domain fails and is not sent', async () => {
  const mx = await journey.mailServer('later.test', { greylist: 1 });
  const handedIn = idIn((await repliesTo('kim@later.test', [[OWN]]))[0]!);
  const posted = await journey.send({ to: 'lee@later.test' });
  for (const id of [handedIn, posted]) await journey.attempted(id);
  const [{ raw }] = await journey.service.sql('select raw from contents where email_id = $1', [
    handedIn,
  ]);
  const changed = (raw as Buffer).toString().replace('hello@acme.example', 'ceo@bank.example');
  await journey.service.sql('update contents set raw = $2 where email_id = $1', [
    handedIn,
    Buffer.from(changed),
  ]);
  const rename = `update emails set from_address = 'ceo@bank.example' where id = $1`;
  await journey.service.sql(rename, [posted]);
  await journey.pass({ hours: 5 });
  for (const id of [handedIn, posted]) {
    const { recipients } = await journey.ended(id);
    const [{ status, reason }] = recipients;
    assert.deepEqual([status, reason.category, reason.blame], ['failed', 'authentication', 'us']);
    assert.match(reason.advice, /exactly one author of the sending domain/);
  }
  assert.equal(mx.messages.length, 0);
  assert.match(journey.service.logs, /an email cannot be signed/);
});
