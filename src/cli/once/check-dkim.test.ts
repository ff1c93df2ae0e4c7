/** DKIM signatures that other software made, verified by ours. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { dkimSign } from 'mailauth/lib/dkim/sign.js';
import { checkDkim } from './check-dkim.ts';

const MESSAGE = [
  'From: Acme <hello@acme.test>',
  'To: jo@receiver.test',
  'Subject: A long subject that is',
  ' folded  over two lines',
  'MIME-Version: 1.0',
  'Content-Type: text/plain; charset=utf-8',
  '',
  'Gr\u00fc\u00dfe \t aus  K\u00f6ln ',
  '',
  '',
  '',
].join('\r\n');

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ed25519 = generateKeyPairSync('ed25519');

const RECORDS: Record<string, string> = {
  'r._domainkey.acme.test': `v=DKIM1; k=rsa; p=${spki(rsa.publicKey).toString('base64')}`,
  'e._domainkey.acme.test': `v=DKIM1; k=ed25519; p=${spki(ed25519.publicKey).subarray(-32).toString('base64')}`,
};
const records = (name: string) => [RECORDS[name]].filter((record) => record !== undefined);

function spki(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

/** A message that mailauth signed with both keys; bytes as latin1 characters. */
async function signedMessage(): Promise<string> {
  const message = Buffer.from(MESSAGE);
  const sign = async (selector: string, key: KeyObject) => {
    const privateKey = key.export({ type: 'pkcs8', format: 'pem' });
    const signature = { signingDomain: 'acme.test', selector, privateKey };
    const options = { canonicalization: 'relaxed/relaxed', ...signature };
    return (await dkimSign(message, { ...options, signatureData: [signature] })).signatures;
  };
  const signatures = (await sign('r', rsa.privateKey)) + (await sign('e', ed25519.privateKey));
  return signatures + message.toString('latin1');
}

test('RSA and Ed25519 signatures of other software are valid', async () => {
  const results = checkDkim(await signedMessage(), records);
  const found = results.map(({ domain, algorithm, ok }) => `${domain} ${algorithm} ${ok}`);
  assert.deepEqual(found, ['acme.test rsa-sha256 true', 'acme.test ed25519-sha256 true']);
});

test('a signature is invalid for another subject, body or key', async () => {
  const message = await signedMessage();
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const otherRecord = `p=${spki(other.publicKey).toString('base64')}`;
  const results = [
    checkDkim(message.replace('A long subject', 'A wrong subject'), records),
    checkDkim(message.replace('aus', 'von'), records),
    checkDkim(message, () => [otherRecord]),
    checkDkim(message, () => []),
  ];
  for (const result of results)
    assert.deepEqual(
      result.map(({ ok }) => ok),
      [false, false],
    );
});
