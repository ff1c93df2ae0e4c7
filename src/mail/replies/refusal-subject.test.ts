/** Shows whether a refusal concerns our address or our domain, and which page delists it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { delistingPage, refusalSubject, type RefusalSubject } from './refusal-subject.ts';
import type { SmtpPhase } from './smtp-reply.ts';

function subjectOf(text: string, phase: SmtpPhase = 'rcpt'): RefusalSubject | null {
  const [, code, enhancedCode, message] = /^(\d{3}) (?:(\d\.\d+\.\d+) )?(.*)$/.exec(text)!;
  const reply = { code: Number(code), enhancedCode: enhancedCode ?? null, message: message! };
  return refusalSubject({ phase, reply }, 'acme.example');
}

const CASES: readonly [reply: string, subject: RefusalSubject | null, phase?: SmtpPhase][] = [
  // Outlook: S3140 and S3150 name a network.
  [
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3140).",
    'address',
    'mail',
  ],
  [
    '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org',
    'address',
  ],
  ['554 IP=192.0.2.1 - None/bad reputation. Ask your postmaster (NOWL)', 'address', 'greeting'],
  ['550 5.7.25 The address sending this message does not have a PTR record', 'address', 'mail'],
  ['550 5.7.1 very low reputation of the sending IP address.', 'address', 'data'],
  ['550 5.7.1 very low reputation of the sending domain.', 'domain', 'data'],
  ['554 5.7.1 Sender address rejected: blocked using dbl.spamhaus.org', 'domain'],
  ['554 5.7.1 acme.example is on our blocklist', 'domain', 'data'],
  ['554 5.7.1 <hello@acme.example> is on our blocklist', 'unclear', 'data'],
  ['554 5.7.1 notacme.example is on our blocklist', 'unclear', 'data'],
  ['554 5.7.1 Message rejected because of user complaints', 'unclear', 'data'],
  ['554 5.7.1 acme.example at 192.0.2.1: bad reputation', 'unclear', 'data'],
  // Replies about a recipient or a message, and temporary ones.
  ['550 5.1.1 No such user', null],
  ['550 5.7.1 Blacklisted URL in message. See http://lookup.uribl.com', null, 'data'],
  ['554 5.7.1 This message looks like spam', null, 'data'],
  ['421 4.7.0 temporarily rate limited due to IP reputation', null, 'mail'],
  ['451 4.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org', null],
  ['535 5.7.8 your ip is blocked', null, 'auth'],
];

test('a refusal concerns our address, our domain, one of the two, or neither', () => {
  for (const [reply, subject, phase] of CASES) {
    assert.equal(subjectOf(reply, phase), subject, reply);
  }
});

test('the delisting page belongs to the blocklist, else to a known provider, and never comes from a link in the reply', () => {
  assert.equal(
    delistingPage('google', 'Client host blocked using zen.spamhaus.org'),
    'https://check.spamhaus.org/',
  );
  assert.equal(delistingPage('office365', 'banned sender'), 'https://sender.office.com/');
  assert.equal(delistingPage('mx.evil.example', 'blocked; pay at https://evil.example/'), null);
});
