/** Addresses of an email: sender and recipients, and the addresses that are refused. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure } from '../support/api.ts';
import { changing, many } from '../support/changing.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const { post, refused, accepted, message } = changing(service);

test('from is exactly one address, with or without a name', async () => {
  assert.equal((await accepted({ from: 'hello@acme.test' })).from, 'hello@acme.test');
  assert.equal((await accepted({ from: '<hello@ACME.test>' })).from, 'hello@acme.test');
  for (const [from, name] of [
    ['Acme <hello@acme.test>', 'Acme'],
    ['"Acme, Inc." <hello@acme.test>', 'Acme, Inc.'],
    ['Zoë Müller <hello@acme.test>', 'Zoë Müller'],
    ['"Say \\"hi\\"" <hello@acme.test>', 'Say "hi"'],
  ]) {
    assert.deepEqual((await message({ from })).from, { name, address: 'hello@acme.test' });
  }
  for (const from of [
    '',
    'Acme',
    'hello@acme.test, ann@acme.test',
    'Acme <hello@acme.test>, Ann <ann@acme.test>',
    'Acme, Inc. <hello@acme.test>',
    'hello@acme.test <>',
    '<hello@acme.test',
    '"ceo<x@bank.test>"@acme.test',
    '"hello>"@acme.test',
    'Acme <hello@acme.test> (work)',
  ]) {
    await refused({ from }, /^from: /);
  }
});

test('the domain of from is exactly a verified domain', async () => {
  for (const domain of ['mail.acme.test', 'acme.test.evil.test', 'notacme.test']) {
    assertFailure(await post({ from: `a@${domain}` }), 403, 'domain_not_verified');
  }
  await refused({ from: 'a@[127.0.0.1]' }, /^from: /);
});

test('addresses are strict mailboxes: no groups, comments, routes, lists or literals', async () => {
  for (const to of [
    '',
    ' ',
    'bob',
    'bob@',
    '@simulator.test',
    'bob@@simulator.test',
    'bob@simulator..test',
    'bob@.simulator.test',
    'bob@-simulator.test',
    '.bob@simulator.test',
    'bob.@simulator.test',
    'b..ob@simulator.test',
    'b ob@simulator.test',
    'bob@simulator test',
    'friends: bob@simulator.test;',
    'friends:;',
    'bob(work)@simulator.test',
    '@relay.test:bob@simulator.test',
    'bob@simulator.test,ann@simulator.test',
    'bob@simulator.test; ann@simulator.test',
    'bob@[127.0.0.1]',
    'bob@[IPv6:::1]',
    'bob@127.0.0.1',
    'Bob bob@simulator.test',
    'Bob <bob@simulator.test> <ann@simulator.test>',
    '<<bob@simulator.test>>',
    `${'a'.repeat(65)}@simulator.test`,
    `bob@${'a'.repeat(64)}.test`,
    `bob@${'a.'.repeat(130)}test`,
    'bob@simulator.test\r\nBcc: ann@simulator.test',
    'bob\u200b@simulator.test',
    '=?utf-8?q?bob?=@simulator.test',
  ]) {
    await refused({ to: [to] }, /^to\[0\]: .*is not an email address/);
  }
});

test('addresses may have dots, plus signs, quotes and other scripts', async () => {
  for (const [given, stored] of [
    ['First.Last+tag@Simulator.TEST', 'First.Last+tag@simulator.test'],
    ["o'neill_{x}=y!#$%&*/?^`|~-@simulator.test", "o'neill_{x}=y!#$%&*/?^`|~-@simulator.test"],
    ['"john doe"@simulator.test', '"john doe"@simulator.test'],
    ['"a<b>,c;d:(e)@f"@simulator.test', '"a<b>,c;d:(e)@f"@simulator.test'],
    ['Bob <"a>b"@simulator.test>', '"a>b"@simulator.test'],
    ['"b\\o\\b"@simulator.test', 'bob@simulator.test'],
    ['jörg@simulator.test', 'jörg@simulator.test'],
    ['bob@bücher.test', 'bob@xn--bcher-kva.test'],
    ['Bob Below <bob@simulator.test>', 'bob@simulator.test'],
    ['bob@simulator.test (Bob)', 'bob@simulator.test'],
    ['"Below, Bob" <bob@simulator.test>', 'bob@simulator.test'],
    [`${'a'.repeat(64)}@simulator.test`, `${'a'.repeat(64)}@simulator.test`],
  ]) {
    const { recipients } = await accepted({ to: given });
    assert.deepEqual(
      recipients.map(({ address }: { address: string }) => address),
      [stored],
    );
  }
});

test('to, cc and bcc have 1 to 50 addresses together', async () => {
  const all = await accepted({ to: many(20), cc: many(40).slice(20), bcc: many(50).slice(40) });
  assert.equal(all.recipients.length, 50);
  await refused({ to: many(20), cc: many(40).slice(20), bcc: many(51).slice(40) }, /50/);
  await refused({ to: many(51) }, /50/);
  await refused({ to: [] }, /^to: /);
  await refused({ to: [], cc: 'a@simulator.test' }, /^to: /);
});

test('an address that is given twice gets one email', async () => {
  const { recipients } = await accepted({
    to: ['Jo <jo@simulator.test>', 'jo@SIMULATOR.test', 'JO@simulator.test'],
    cc: 'jo@simulator.test',
    bcc: ['ann@simulator.test', 'ann@simulator.test'],
  });
  assert.deepEqual(
    recipients.map(({ address, kind }: { address: string; kind: string }) => [address, kind]),
    [
      ['jo@simulator.test', 'to'],
      ['JO@simulator.test', 'to'],
      ['ann@simulator.test', 'bcc'],
    ],
  );
});

test('cc and reply_to are in the message, bcc is not', async () => {
  const parsed = await message({
    to: ['Jo Doe <jo@simulator.test>', 'ann@simulator.test'],
    cc: 'Carl <carl@simulator.test>',
    bcc: ['secret@simulator.test'],
    reply_to: ['Help <help@acme.test>', 'archive@acme.test'],
  });
  assert.deepEqual(parsed.to, [
    { name: 'Jo Doe', address: 'jo@simulator.test' },
    { name: '', address: 'ann@simulator.test' },
  ]);
  assert.deepEqual(parsed.cc, [{ name: 'Carl', address: 'carl@simulator.test' }]);
  assert.deepEqual(parsed.replyTo, [
    { name: 'Help', address: 'help@acme.test' },
    { name: '', address: 'archive@acme.test' },
  ]);
  assert.doesNotMatch(parsed.raw, /secret@|^bcc:/im);
});
